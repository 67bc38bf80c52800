"""Checkpoints of dynamic tables that are sharded across ranks."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.ops.dynamic_content import assign_rows
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through

KEYS = np.array([0, 1, 2, 5, -3, 2**20 + 1], np.int64)


def keys_of(table: Any) -> np.ndarray:
    """Those that a rank has."""
    return KEYS[table.keyed_rows.owners(KEYS) == table.transport.rank]


def test_all_ranks_save_together_for_any_number_of_ranks(tmp_path: Path) -> None:
    path = str(tmp_path / "model.ckpt")

    def program(transport: Transport, saves: bool) -> Dict[str, List[Any]]:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            modes = {"users": None, "items": "localized:{}".format(transport.size - 1)}
            tables = [
                sok.DynamicVariable(1, initializer="zeros", name=name, mode=mode)
                for name, mode in modes.items()
            ]
            slots = [table.add_slot("Adagrad", 0.5) for table in tables]
            step = tf.train.get_or_create_global_step()
            # A restore takes no other rank, so TensorFlow's saver will do.
            saver: Any = tf.train.Saver() if transport.size == 3 else sok.CheckpointSaver()
            session.run(tf.global_variables_initializer())
            if saves:
                session.run(step.assign(7))
                for number, table in enumerate(tables):
                    values = keys_of(table)[:, None].astype(np.float32) + number
                    session.run(assign_rows(table.handle, tf.constant(keys_of(table)), values))
                saver.save(session, path)
            else:
                saver.restore(session, path)
                assert session.run(step) == 7
            found = {}
            for table, slot in zip(tables, slots):
                rows = session.run(table.export())
                assert sorted(rows.keys) == sorted(keys_of(table))
                assert session.run(slot.export().values).tolist() == [[0.5]] * len(rows.keys)
                found[table.table_key] = sorted(zip(rows.keys, rows.values[:, 0]))
            return found

    for ranks, saves in ((2, True), (3, False), (1, False), (2, False)):
        of_ranks = run_ranks(ranks, functools.partial(program, saves=saves), 60)
        for number, name in enumerate(("users", "items")):
            found = sorted(row for one in of_ranks for row in one[name])
            assert found == [(key, np.float32(key) + number) for key in sorted(KEYS)]


class Model:
    """Tables whose rows come and go, a static one, and the bags of one rank."""

    def __init__(self, transport: Transport) -> None:
        modes = {"users": None, "items": "localized:{}".format(transport.size - 1)}
        self.tables: List[Any] = [
            sok.DynamicVariable(2, initializer="normal", name=name, mode=mode)
            for name, mode in modes.items()
        ]
        self.tables.append(sok.Variable(np.ones([5, 2], np.float32), name="places"))
        self.step = tf.placeholder(tf.int64, [])
        mine = np.arange(transport.rank, 12, transport.size)
        keys = tf.constant(mine) * 7 - self.step * 5
        ids = [tf.RaggedTensor.from_row_lengths(one, [len(mine)]) for one in (keys, keys, keys % 5)]
        pooled = sok.lookup_sparse(self.tables, ids, combiners=["sum"] * 3)
        # Whole numbers, whose sums are equal in any order.
        grads = tf.gradients(tf.add_n([tf.reduce_sum(one) for one in pooled]), self.tables)
        self.optimizer = sok.OptimizerWrapper(tf.train.MomentumOptimizer(0.5, 0.5))
        self.train = self.optimizer.apply_gradients(zip(grads, self.tables))

    def run(self, session: Any, steps: Any) -> None:
        for step in steps:
            session.run(self.train, {self.step: step})

    def rows(self, session: Any) -> Dict[Any, List[float]]:
        """Rows and slots of this rank."""
        found: Dict[Any, List[float]] = {}
        for table in self.tables:
            for part in (table, self.optimizer.get_slot(table, "momentum")):
                keys, rows = session.run(sok.export(part))
                for key, row in zip(keys, rows):
                    found.setdefault((table.name, key), []).extend(row)
        return found


def trained(
    transport: Transport, steps: Any, restored: str = "", saved: str = ""
) -> Dict[Any, List[float]]:
    """Restores and saves on one rank, the last."""
    with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
        model, saver = Model(transport), tf.train.Saver(sharded=transport.size == 3)
        session.run(tf.global_variables_initializer())
        if restored and transport.rank == transport.size - 1:
            saver.restore(session, restored)
            saver.save(session, saved + "_before_any_step")
        model.run(session, steps)
        if saved and transport.rank == transport.size - 1:
            saver.save(session, saved)
        rows = model.rows(session)
        model.run(session, [99])
        return rows


def joined(ranks: List[Dict[Any, List[float]]]) -> Dict[Any, List[float]]:
    """Rows of all ranks."""
    return {key: row for rank in ranks for key, row in rank.items()}


def contents(path: str, name: str) -> List[Any]:
    """What a checkpoint has of a table, in whatever number of parts."""
    found = []
    for tensor, _ in tf.train.list_variables(path):
        if tensor.startswith(name) and tensor.endswith("-keys"):
            part = tensor[: -len("-keys")]
            columns = [part + "-keys", part + "-values", part + "-freqs", part + "-versions"]
            read = [tf.train.load_variable(path, one) for one in columns]
            kind = part.replace("/part_0", "").replace("/part_1", "").replace("/part_2", "")
            found += [(kind, key, *row.tolist()) for key, row in zip(read[0], read[1])]
            assert "/M" in part or len(read[2]) == len(read[3]) == len(read[0])
    return sorted(found)


@pytest.mark.slow
def test_one_rank_saves_what_all_have_and_restores_it_for_all(tmp_path: Path) -> None:
    two = str(tmp_path / "two")
    run_ranks(2, functools.partial(trained, steps=range(3), saved=two), 60)
    alone = run_ranks(1, functools.partial(trained, steps=range(5)), 60)[0]
    for size in (1, 3):
        path = str(tmp_path / "ranks_{}".format(size))
        work = functools.partial(trained, steps=range(3, 5), restored=two, saved=path)
        assert joined(run_ranks(size, work, 60)) == alone
        for name in ("users", "items"):
            assert contents(path + "_before_any_step", name) == contents(two, name)
    assert not list(tmp_path.glob("*temp*"))
    with tf.Graph().as_default(), tf.Session() as session:
        users = graph_opt.get_embedding_variable("users", 2)
        tf.train.Saver().restore(session, str(tmp_path / "ranks_3"))
        rows = session.run(users.export())
        values = {key: list(row) for key, row in zip(rows.keys, rows.values)}
    assert values == {key: row[:2] for (name, key), row in alone.items() if "users" in name}


@pytest.mark.slow
def test_every_saver_of_a_rank(tmp_path: Path) -> None:
    def train(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            model = Model(transport)
            users = model.tables[0]
            slot = model.optimizer.get_slot(users, "momentum")
            savers = {
                "named": tf.train.Saver({"people": users, "people/m": slot}),
                "slot": tf.train.Saver([slot]),
                "all": tf.train.Saver(),
            }
            session.run(tf.global_variables_initializer())
            model.run(session, range(2))
            if transport.rank == 0:
                savers["named"].save(session, str(tmp_path / "named"))
                savers["slot"].save(session, str(tmp_path / "slot"))
            before = model.rows(session)
            savers["all"].save(session, str(tmp_path / "all"))  # all ranks, to the same place
            model.run(session, [2])
            if transport.rank == 1:
                savers["all"].restore(session, str(tmp_path / "all"))
                savers["named"].restore(session, str(tmp_path / "named"))
            model.run(session, [])
            session.run(sok.lookup_sparse(users, tf.ragged.constant([[7]], tf.int64)))
            assert model.rows(session) == before
            with pytest.raises(ValueError, match="names slot 'users/Momentum' of a table"):
                tf.train.Saver({"people": users, "speed": slot})

    run_ranks(2, train, 60)
    names = {name.split("-")[0] for name, _ in tf.train.list_variables(str(tmp_path / "named"))}
    parts = ["people/part_0", "people/part_1"]
    assert names == {*parts, *(part + "/m" for part in parts)}
    assert len(contents(str(tmp_path / "slot"), "users")) == 24


@pytest.mark.slow
def test_a_monitored_session_of_one_rank_saves_and_all_go_on(tmp_path: Path) -> None:
    folder = str(tmp_path / "model")

    def train(transport: Transport, last_step: int) -> Dict[int, float]:
        with communicating_through(transport), tf.Graph().as_default():
            table = sok.DynamicVariable(2, initializer="zeros", name="users")
            step = tf.train.get_or_create_global_step()
            shared = transport.broadcast(step, 0, transport.message_name("step"))
            keys = tf.constant(KEYS)[transport.rank :: transport.size] + step
            pooled: Any = sok.lookup_sparse(table, tf.reshape(keys, [-1, 1]), combiners="sum")
            optimizer = tf.train.GradientDescentOptimizer(1.0)
            train_op = optimizer.minimize(-tf.reduce_sum(pooled), global_step=step)
            exported = sok.export(table)
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=folder if transport.rank == 0 else None,
                save_checkpoint_steps=2,
                hooks=[
                    tf.train.StopAtStepHook(last_step=last_step),
                    _AfterCreation(tf.assign(step, shared)),
                ],
            ) as session:
                while not session.should_stop():
                    _, (keys, rows) = session.run([train_op, exported])
            return dict(zip(keys, rows[:, 0]))

    run_ranks(2, functools.partial(train, last_step=3), 60)
    run_ranks(3, functools.partial(train, last_step=5), 60)
    found = contents(str(tmp_path / "model" / "model.ckpt-5"), "users")
    expected: Dict[int, float] = {}
    for step in range(5):
        for key in KEYS + step:
            expected[key] = expected.get(key, 0.0) + 1.0
    assert {key: value for _, key, value, *_ in found} == expected


class _AfterCreation(tf.train.SessionRunHook):
    """Runs an operation in each new session."""

    def __init__(self, operation: Any) -> None:
        self._operation = operation

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._operation)
