"""Checkpoints of N ranks: those of one process, for any number of ranks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest
import tensorflow

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from graph_opt.table_files import row_blocks

USERS = np.random.default_rng(0).normal(size=(11, 2)).astype(np.float32)
ITEMS = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
WRAPPERS: Dict[str, Callable[[], Any]] = {
    "wrapped": lambda: sok.OptimizerWrapper(tf.train.AdamOptimizer(0.1)),
    "plain": lambda: tf.train.AdamOptimizer(0.1),
    "keras": lambda: sok.OptimizerWrapper(tensorflow.keras.optimizers.Adam(0.1)),
}


def build(rank: int, size: int, optimizer: Any, stock: bool = False) -> Any:
    """A model whose ranks have the bags of one batch of four."""
    if stock:
        tables = [tf.Variable(USERS, name="users", use_resource=True)]
        tables += [tf.Variable(ITEMS, name="items", use_resource=True)]
    else:
        mode = "localized:{}".format(size - 1)
        tables = [sok.Variable(USERS, name="users"), sok.Variable(ITEMS, name="items", mode=mode)]
    weights = tf.Variable(np.ones([2, 1], np.float32), name="dense")
    bags = [bag for bag in range(4) if bag % size == rank]
    places = [[place, 0] for place in range(len(bags))]
    ids = [tf.SparseTensor(places, [key + bag for bag in bags], [len(bags), 1]) for key in (5, 1)]
    if stock:
        pooled: Any = [tf.nn.embedding_lookup_sparse(t, i, None) for t, i in zip(tables, ids)]
    else:
        pooled = sok.lookup_sparse(tables, ids)
    loss = tf.reduce_sum(tf.square(tf.matmul(pooled[0], weights))) + tf.reduce_sum(pooled[1] ** 2)
    step = tf.train.get_or_create_global_step()
    train = optimizer.apply_gradients(zip(tf.gradients(loss, tables), tables), global_step=step)
    return tables, train


def whole(parts: List[Any], table: int) -> np.ndarray:
    """A table out of what `sok.export` gave on each rank."""
    rows = {key: row for part in parts for key, row in zip(*part[table])}
    return np.array([rows[key] for key in sorted(rows)])


@pytest.mark.parametrize("optimizer", ["plain", pytest.param("keras", marks=pytest.mark.slow)])
def test_training_goes_on_with_another_number_of_ranks(
    tmp_path: Path, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_blocks, "_BLOCK_BYTES", 64)  # several blocks of users

    def train(transport: Transport, steps: int, restored: str = "", saved: str = "") -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            tables, train_op = build(transport.rank, transport.size, WRAPPERS[optimizer]())
            saver = sok.CheckpointSaver()
            session.run(tf.global_variables_initializer())
            if restored:
                saver.restore(session, str(tmp_path / restored))
            for _ in range(steps):
                session.run(train_op)
            if saved:
                saver.save(session, str(tmp_path / saved))
            return session.run([sok.export(table) for table in tables])

    uninterrupted = run_ranks(1, lambda transport: train(transport, 6))
    run_ranks(2, lambda transport: train(transport, 3, "", "middle"))
    parts = run_ranks(3, lambda transport: train(transport, 3, "middle"))
    for table in range(2):
        expected = whole(uninterrupted, table)
        np.testing.assert_allclose(whole(parts, table), expected, rtol=1e-5, atol=1e-6)
    assert not [name for name in os.listdir(tmp_path) if "tables" in name]


def test_checkpoints_are_those_of_one_process_without_graph_opt(tmp_path: Path) -> None:
    def stock(steps: int, restored: str = "", saved: str = "") -> Any:
        with tf.Graph().as_default(), tf.Session() as session:
            tables, train = build(0, 1, tf.train.AdamOptimizer(0.1), stock=True)
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            if restored:
                saver.restore(session, str(tmp_path / restored))
            for _ in range(steps):
                session.run(train)
            if saved:
                saver.save(session, str(tmp_path / saved))
            return session.run(tables)

    def ranks(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            _, train = build(transport.rank, transport.size, WRAPPERS["wrapped"]())
            saver = sok.CheckpointSaver()
            saver.restore(session, str(tmp_path / "stock"))
            session.run(train)
            saver.save(session, str(tmp_path / "ranks"))

    stock(2, "", "stock")
    run_ranks(2, ranks)
    for ours, theirs in zip(stock(1, "ranks"), stock(4)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    shapes = dict(tf.train.list_variables(str(tmp_path / "ranks")))
    assert shapes == dict(tf.train.list_variables(str(tmp_path / "stock")))


@pytest.mark.slow
def test_monitored_sessions_checkpoint_and_restore(tmp_path: Path) -> None:
    def train(transport: Transport, until: int) -> Any:
        with communicating_through(transport), tf.Graph().as_default():
            tables, train_op = build(transport.rank, transport.size, WRAPPERS["wrapped"]())
            exports = [sok.export(table) for table in tables]
            scaffold = tf.train.Scaffold(saver=sok.CheckpointSaver(max_to_keep=2))
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path / "model"),
                scaffold=scaffold,
                save_checkpoint_steps=2,
                save_summaries_steps=None,
                hooks=[tf.train.StopAtStepHook(last_step=until)],
            ) as session:
                while not session.should_stop():
                    result = session.run([train_op, exports])[1]
            return result

    run_ranks(2, lambda transport: train(transport, 5))
    path = tf.train.latest_checkpoint(str(tmp_path / "model"))
    assert path.endswith("-5")
    run_ranks(3, lambda transport: train(transport, 7))
    kept = tf.train.get_checkpoint_state(str(tmp_path / "model")).all_model_checkpoint_paths
    assert [at.rsplit("-", 1)[1] for at in kept] == ["5", "7"]
    again = dict(tf.train.list_variables(str(kept[1])))
    assert again["users"] == [11, 2] and again["items/Adam_1"] == [5, 3]


def test_errors_reach_all_ranks_and_earlier_checkpoints_stay(tmp_path: Path) -> None:
    def check(transport: Transport) -> List[str]:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            build(transport.rank, transport.size, WRAPPERS["wrapped"]())
            saver = sok.CheckpointSaver()
            session.run(tf.global_variables_initializer())
            saver.save(session, str(tmp_path / "good"))
            (tmp_path / "file").touch()
            messages = []
            for call in (
                lambda: saver.save(session, str(tmp_path / "file" / "model")),
                lambda: saver.restore(session, str(tmp_path / "missing")),
            ):
                with pytest.raises((OSError, ValueError, RuntimeError)) as caught:
                    call()
                messages.append(str(caught.value))
            saver.restore(session, str(tmp_path / "good"))
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            sok.Variable(np.zeros([4, 2], np.float32), name="users")
            tf.train.get_or_create_global_step()
            with pytest.raises(ValueError, match=r"users of checkpoint .* has shape \[11, 2\]"):
                sok.CheckpointSaver().restore(session, str(tmp_path / "good"))
        return messages

    def restore_damaged(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            build(transport.rank, transport.size, WRAPPERS["wrapped"]())
            with pytest.raises(tf.errors.DataLossError, match="is damaged: 'items'"):
                sok.CheckpointSaver().restore(session, str(tmp_path / "good"))

    first, second = run_ranks(2, check)
    for data in tmp_path.glob("good.data-*"):
        data.write_bytes(data.read_bytes().replace(ITEMS[0].tobytes(), ITEMS[1].tobytes()))
    run_ranks(2, restore_damaged)
    assert "file" in first[0] and second[0].startswith("rank 0 failed: NotADirectoryError")
    assert "valid checkpoint" in first[1] and "valid checkpoint" in second[1]


def test_arguments_are_checked() -> None:
    def check(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default():
            sok.Variable(USERS, name="users")
            with pytest.raises(ValueError, match="make a global step"):
                sok.CheckpointSaver()
            with pytest.raises(ValueError, match="does not support sharded"):
                sok.CheckpointSaver(sharded=True)

    run_ranks(2, check)


def test_tables_that_grow_are_saved_with_their_keys(tmp_path: Path) -> None:
    keys = np.array([3, 10**12, -7, 4, 8])

    def save(transport: Transport, restored: bool) -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            layer = sok.All2AllDenseEmbedding(12 // transport.size, 2, 1, 1)
            table = layer.embedding_variable
            optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))
            optimizer._create_slots([table])
            slot = optimizer.get_slot(table, "accumulator")
            fill = [
                sok.assign(one, keys, [[key, add] for key in range(5)], check_ownership=False)
                for one, add in ((table, 0), (slot, 1))
            ]
            tf.train.get_or_create_global_step()
            saver = sok.CheckpointSaver()
            if restored:  # nothing else initializes the tables
                saver.restore(session, str(tmp_path / "model"))
            else:
                session.run(tf.global_variables_initializer())
                session.run(fill)
                saver.save(session, str(tmp_path / "model"))
            return session.run([sok.export(table), sok.export(slot)])

    run_ranks(3, lambda transport: save(transport, False))
    found = run_ranks(2, lambda transport: save(transport, True))
    for table in range(2):
        rows = {key: list(row) for part in found for key, row in zip(*part[table])}
        assert rows == {key: [place, table] for place, key in enumerate(keys)}
