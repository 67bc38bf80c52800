"""A program for ranks of Horovod: a stock script, as it is and with its tables sharded.

Both train alike; and what the second leaves in its checkpoints is what the first has in the end.
Its argument is a folder.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

import graph_opt
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod
from tests.session import replicated_model as replicated

ROWS = 1001
STEPS = 100
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9),
    "rms_prop": lambda: tf.train.RMSPropOptimizer(0.01),
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.5),
}


class Trained(NamedTuple):
    """What a run leaves."""

    losses: np.ndarray
    sharded: List[str]


def main() -> None:
    """Runs as one rank; an assertion that fails ends all."""
    tf.disable_control_flow_v2()
    horovod().init()
    rank = horovod().rank()
    for number, (name, optimizer) in enumerate(sorted(OPTIMIZERS.items())):
        folders = [os.path.join(sys.argv[1], name, kind) for kind in ("stock", "sharded")]
        use_resource = number % 2 == 1
        fused = replicated.sharding()
        fused.graph_options.optimizer_options.do_group_embedding = name in ("adam", "adagrad")
        stock = train(optimizer, use_resource, folders[0], None)
        sharded = train(optimizer, use_resource, folders[1], fused)
        assert sharded.sharded == ["bags", "rows"], sharded.sharded
        np.testing.assert_allclose(sharded.losses, stock.losses, rtol=1e-4, atol=1e-5)
        if rank == 0:
            check_checkpoints(*folders)
    print("rank {} is done".format(rank))


def train(optimizer: Any, use_resource: bool, folder: str, config: Optional[Any]) -> Trained:
    """Trains as a script of Horovod's examples does."""
    hvd = horovod()
    installed: Any = contextlib.nullcontext() if config is None else graph_opt.install(config)
    with installed, tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        ids = tf.placeholder(tf.int64, [None])
        bags = tf.sparse_placeholder(tf.int64)
        labels = tf.placeholder(tf.float32, [None])
        with tf.variable_scope("", use_resource=use_resource):
            rows = tf.get_variable(
                "rows", [ROWS, 8], initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=3)
            )
            of_bags = tf.get_variable("bags", [ROWS, 4], initializer=tf.zeros_initializer())
            dense = tf.get_variable("dense", [12, 1], initializer=tf.ones_initializer())
        looked_up = [
            tf.nn.embedding_lookup(rows, ids),
            tf.nn.safe_embedding_lookup_sparse(of_bags, bags, combiner="mean"),
        ]
        logits = tf.squeeze(tf.matmul(tf.concat(looked_up, axis=1), dense), 1)
        loss = tf.reduce_mean(tf.square(logits - labels))
        step = tf.train.get_or_create_global_step()
        train_op = hvd.DistributedOptimizer(optimizer()).minimize(loss, global_step=step)
        hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=STEPS)]
        losses: List[float] = []
        with tf.train.MonitoredTrainingSession(
            hooks=hooks,
            checkpoint_dir=folder if hvd.rank() == 0 else None,
            save_checkpoint_steps=STEPS // 2,
            save_summaries_steps=None,
            log_step_count_steps=None,
        ) as session:
            while not session.should_stop():
                batch = {ids: 0, bags: 0, labels: 0}
                batch.update(zip(batch, batch_of(len(losses), hvd.rank())))
                losses.append(session.run([loss, train_op], batch)[0])
        report = graph_opt.report(graph) if config is not None else None
        sharded = sorted(one.name for one in report.sharded) if report is not None else []
        return Trained(np.array(losses), sharded)


def batch_of(step: int, rank: int) -> List[Any]:
    """Ids, bags and labels of a rank's step."""
    random = np.random.default_rng([step, rank])
    size = 16
    places = np.stack([np.sort(random.integers(0, size, 30)), np.arange(30)], axis=1)
    bags = tf.SparseTensorValue(places, random.integers(0, ROWS, 30), [size, 30])
    return [random.integers(0, ROWS, size), bags, random.normal(size=size)]


def check_checkpoints(stock: str, sharded: str) -> None:
    """Requires that TensorFlow reads the same variables from both."""
    expected, found = (tf.train.load_checkpoint(tf.train.latest_checkpoint(one))
                       for one in (stock, sharded))  # fmt: skip
    shapes = expected.get_variable_to_shape_map()
    assert found.get_variable_to_shape_map() == shapes
    for name in shapes:
        np.testing.assert_allclose(
            found.get_tensor(name), expected.get_tensor(name), rtol=1e-3, atol=1e-5, err_msg=name
        )


if __name__ == "__main__":
    main()
