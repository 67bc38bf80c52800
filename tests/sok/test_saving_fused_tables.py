"""Files and checkpoints of tables whose updates a session of graph_opt's fuses and defers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through

VALUES = np.random.default_rng(0).normal(size=(31, 2)).astype(np.float32)


def fusing_session() -> Any:
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = True
    return graph_opt.Session(config=config)


def train(transport: Transport, folder: Path, fused: bool) -> List[Any]:
    """Every step moves all rows in TensorFlow's Adam; those with a gradient differ by step."""
    open_session = fusing_session if fused else tf.Session
    with communicating_through(transport), tf.Graph().as_default(), open_session() as session:
        table = sok.Variable(VALUES, name="users")
        ids = tf.placeholder(tf.int64, [3])
        pooled: Any = sok.all2all_dense_embedding(table, ids)
        optimizer = sok.OptimizerWrapper(tf.train.AdamOptimizer(0.1))
        gradients = tf.gradients(tf.reduce_sum(tf.square(pooled)), [table])
        step = tf.train.get_or_create_global_step()
        train_op = optimizer.apply_gradients([(gradients[0], table)], global_step=step)
        session.run(tf.global_variables_initializer())
        saver = None
        states = []
        for number in range(12):
            batch = [(5 * number + 7 * transport.rank + 3 * i) % 31 for i in range(3)]
            session.run(train_op, {ids: batch})
            if number == 3:
                sok.dump(folder, table, optimizer, session=session)
                states.append((folder / "users_0-weight").read_bytes()[296:])
            elif number == 5:
                saver = sok.CheckpointSaver()
                saver.save(session, str(folder / "model"))
                states.append(tf.train.load_variable(str(folder / "model"), "users/Adam").tobytes())
            elif number == 7:
                sok.load(folder, table, optimizer, session=session)
            elif number == 9 and saver is not None:
                saver.restore(session, str(folder / "model"))
        exported = session.run(sok.export(table))
        states.append(exported[1].tobytes())
        if fused:
            running = graph_opt.running_graph_def(session.graph)
            assert [node for node in running.node if node.op == "ResourceExchangeApply"]
        return [np.frombuffer(state, np.float32) for state in states]


def test_deferred_rows_are_saved_and_loaded_as_tensorflows(tmp_path: Path) -> None:
    fused = run_ranks(2, lambda transport: train(transport, tmp_path / "fused", True))
    stock = run_ranks(2, lambda transport: train(transport, tmp_path / "stock", False))
    for of_rank, expected in zip(fused, stock):
        for ours, theirs in zip(of_rank, expected):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
