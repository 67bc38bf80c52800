"""A program for each rank of Horovod: trains replicated tables stock, fused, and divided."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from typing import Any, Dict, List, Sequence

import numpy as np

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.runtime.stages import Stage, stages_of
from graph_opt.sharding.horovod_transport import horovod
from tests.passes.fused_models import config
from tests.passes.fusion.replicated_models import Minimize, Model, applying, require_equal
from tests.plain_sessions import plain_session

STEPS = 5
TABLES = ("items", "users", "history")


def allreduced(gradients: List[Any]) -> Sequence[Any]:
    return [horovod().allreduce(gradient) for gradient in gradients]


def grouped(gradients: List[Any]) -> Sequence[Any]:
    reduced: Sequence[Any] = horovod().grouped_allreduce(gradients, op=horovod().Sum)
    return reduced


def clipped(gradients: List[Any]) -> Sequence[Any]:
    reduced: Sequence[Any] = tf.clip_by_global_norm(allreduced(gradients), 1.0)[0]
    return reduced


def distributed(**options: Any) -> Minimize:
    def minimize(optimizer: Any, loss: tf.Tensor, tables: Sequence[Any]) -> tf.Operation:
        wrapped = horovod().DistributedOptimizer(optimizer, **options)
        return wrapped.minimize(loss, var_list=tables)

    return minimize


WAYS: Dict[str, Minimize] = {
    "allreduce": applying(allreduced),
    "grouped_allreduce": applying(grouped),
    "allreduce, clipped": applying(clipped),
    "DistributedOptimizer": distributed(),
    "DistributedOptimizer(groups)": distributed(groups=1),
    "DistributedOptimizer(sparse_as_dense)": distributed(sparse_as_dense=True),
}
NOT_SUMMED = ("allreduce, clipped", "DistributedOptimizer(sparse_as_dense)")


def train(way: str, optimizer: str, fuse: bool) -> List[np.ndarray]:
    """The tables after some steps, and checks what the session did."""
    with tf.Graph().as_default() as graph:
        model = Model(optimizer, WAYS[way], use_resource=True)
        with graph_opt.Session(config=config()) if fuse else plain_session() as session:
            trained = model.trained(session, STEPS, horovod().rank())
        if fuse:
            ops = {node.op for node in graph_opt.running_graph_def(graph).node}
            assert "ResourceGroupEmbeddingLookup" in ops
            report = graph_opt.session_reports()[-1].report
            summed = any("summed by row" in change for change in report.changes)
            assert summed == (way not in NOT_SUMMED), (way, report.changes)
        return trained


def train_sharded(way: str, optimizer: str, stock: Sequence[np.ndarray]) -> None:
    """Shards the tables of the same script, and requires the rows of whole ones."""
    options = config()
    options.graph_options.optimizer_options.shard_tables = True
    options.graph_options.optimizer_options.shard_tables_options.min_table_bytes = 1
    with tf.Graph().as_default() as graph:
        model = Model(optimizer, WAYS[way], use_resource=True)
        with graph_opt.Session(config=options) as session:
            model.train(session, STEPS, horovod().rank())
            report = graph_opt.session_reports()[-1].report
            divided = [] if way in NOT_SUMMED else sorted(TABLES)
            assert sorted(one.name for one in report.sharded) == divided, (way, str(report))
            if not divided:
                return
            steps = ArraySteps(session)
            for table, whole in zip(tf.trainable_variables(), stock):
                rows = table.keyed_rows
                read = functools.partial(rows.block, 0, rows.fixed_rows)
                keys, values = steps.run(("rows", table.name), read)
                assert len(keys) == len(whole) // 2
                require_equal([values], [whole[keys]])
        sent = {node.op for node in graph_opt.running_graph_def(graph).node}
        assert "ExchangeAllToAll" in sent


def end_apart() -> None:
    """Rank 1 ends its session while the prefetch of rank 0 asks for rows of one more batch."""
    options = config()
    options.graph_options.optimizer_options.shard_tables = True
    options.graph_options.optimizer_options.shard_tables_options.min_table_bytes = 1
    options.graph_options.optimizer_options.do_async_embedding = True
    prefetch = options.graph_options.optimizer_options.async_embedding_options
    prefetch.threads_num, prefetch.capacity, prefetch.infer_io_stage = 1, 2, True
    with tf.Graph().as_default() as graph:
        rows = tf.data.make_one_shot_iterator(tf.data.Dataset.range(1000).batch(4)).get_next()
        ones = tf.ones_initializer()
        single, half = (
            tf.get_variable(name, [1000, 2], dtype, ones)
            for name, dtype in (("single", tf.float32), ("half", tf.float16))
        )
        pooled = [
            tf.cast(tf.nn.embedding_lookup(table, rows), tf.float32) for table in (single, half)
        ]
        loss = tf.reduce_sum(tf.concat(pooled, axis=1))
        optimizer = horovod().DistributedOptimizer(tf.train.AdagradOptimizer(0.1))
        train = optimizer.minimize(loss)
        with graph_opt.Session(config=options) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(train)
                session.run(loss)
            stage = stages_of(graph)[-1]
            assert stage.exchange is not None and len(stage.exchange.messages) == 2
            if horovod().rank() == 0:
                with contextlib.suppress(tf.errors.CancelledError):  # where no batch was left
                    session.run(loss)
                end = time.monotonic() + 30
                while prefetches(stage) and time.monotonic() < end:
                    time.sleep(0.01)
                assert not prefetches(stage)


def prefetches(stage: Stage) -> bool:
    """Whether a stage has a thread."""
    start = "graph_opt/{}/".format(stage.name)
    return any(thread.name.startswith(start) for thread in threading.enumerate())


def main() -> None:
    """Runs as one of two ranks; an assertion that fails ends both."""
    horovod().init()
    end_apart()
    for way in WAYS:
        optimizer = "adam" if way.startswith("DistributedOptimizer") else "adagrad"
        stock = train(way, optimizer, fuse=False)
        require_equal(train(way, optimizer, fuse=True), stock)
        train_sharded(way, optimizer, stock)
    # The collectives are the same: a rank that fuses meets one that does not.
    # (With functions, TensorFlow numbers them in the order of each rank's graph.)
    tf.disable_control_flow_v2()
    some = train("DistributedOptimizer", "adam", fuse=horovod().rank() == 0)
    require_equal(some, train("DistributedOptimizer", "adam", fuse=False))
    print("rank {} is done".format(horovod().rank()))


if __name__ == "__main__":
    main()
