"""`tf.train.Saver` with sharded tables: whole tables, whichever rank calls it, for any number."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from graph_opt.table_files import row_blocks

USERS = np.random.default_rng(0).normal(size=(11, 2)).astype(np.float32)
ITEMS = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
BAGS = 12
ONE_BAG = tf.SparseTensorValue([[0, 0]], np.array([1], np.int64), [1, 1])


class Model:
    """Two tables and a dense layer; the ranks share the bags of each batch."""

    def __init__(self, rank: int = 0, size: int = 0) -> None:
        """Of one process without graph_opt if `size` is 0."""
        if size:
            mode = "localized:{}".format(size - 1)
            self.tables: List[Any] = [sok.Variable(USERS, name="users")]
            self.tables.append(sok.Variable(ITEMS, name="items", mode=mode))
        else:
            self.tables = [tf.Variable(USERS, name="users", use_resource=True)]
            self.tables.append(tf.Variable(ITEMS, name="items", use_resource=True))
        weights = tf.Variable(np.ones([2, 1], np.float32), name="dense", trainable=False)
        step = tf.train.get_or_create_global_step()
        bags = [bag for bag in range(BAGS) if bag % max(1, size) == rank]
        keys = [tf.constant(bags, tf.int64) * 3 + step * 5, tf.constant(bags, tf.int64) + step]
        places = [[place, 0] for place in range(len(bags))]
        ids = [
            tf.SparseTensor(places, key % table, [len(bags), 1])
            for key, table in zip(keys, (len(USERS), len(ITEMS)))
        ]
        if size:
            pooled: Any = sok.lookup_sparse(self.tables, ids)
        else:
            pooled = [tf.nn.embedding_lookup_sparse(t, i, None) for t, i in zip(self.tables, ids)]
        loss = tf.reduce_sum(tf.square(tf.matmul(pooled[0], weights)))
        loss += tf.reduce_sum(tf.square(pooled[1]))
        self.loss = loss
        optimizer = tf.train.AdamOptimizer(0.1)
        gradients = tf.gradients(loss, self.tables)
        self.train = optimizer.apply_gradients(zip(gradients, self.tables), global_step=step)

    def run(self, session: Any, steps: int) -> None:
        for _ in range(steps):
            session.run(self.train)


def stock(path: Path, steps: int, restored: str = "") -> None:
    """Trains without ranks, and saves."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model()
        session.run(tf.global_variables_initializer())
        if restored:
            tf.train.Saver().restore(session, restored)
        model.run(session, steps)
        tf.train.Saver().save(session, str(path))


def check_equal(ours: Path, theirs: Path) -> None:
    """Two checkpoints have the same tensors."""
    names = dict(tf.train.list_variables(str(ours)))
    assert names == dict(tf.train.list_variables(str(theirs)))
    for name in names:
        np.testing.assert_allclose(
            tf.train.load_variable(str(ours), name),
            tf.train.load_variable(str(theirs), name),
            rtol=1e-4,
            atol=1e-6,
            err_msg=name,
        )


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "_BLOCK_BYTES", 64)  # several blocks of users


@pytest.mark.slow
def test_one_rank_saves_and_another_number_of_ranks_goes_on(tmp_path: Path) -> None:
    def train(transport: Transport, steps: int, restored: str, saved: str) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            model = Model(transport.rank, transport.size)
            saver = tf.train.Saver()
            names = ("dense", "global_step", "beta1_power", "beta2_power")
            shared = tf.train.Saver([v for v in tf.global_variables() if v.op.name in names])
            session.run(tf.global_variables_initializer())
            if restored and transport.rank == 0:
                saver.restore(session, str(tmp_path / restored))
                saver.save(session, str(tmp_path / "again"))
            elif restored:  # as scripts broadcast what all ranks share
                shared.restore(session, str(tmp_path / restored))
            model.run(session, steps)
            if transport.rank == 0:
                assert saver.save(session, str(tmp_path / saved)) == str(tmp_path / saved)
            model.run(session, 1)

    run_ranks(2, lambda transport: train(transport, 3, "", "two"))
    for size, name in ((1, "ranks_1"), (3, "ranks_3")):
        run_ranks(size, functools.partial(train, steps=2, restored="two", saved=name))
        check_equal(tmp_path / "again", tmp_path / "two")
    stock(tmp_path / "stock_3", 3)
    stock(tmp_path / "stock_5", 5)
    stock(tmp_path / "after_two", 2, str(tmp_path / "two"))
    check_equal(tmp_path / "two", tmp_path / "stock_3")
    for name in ("ranks_1", "ranks_3", "after_two"):
        check_equal(tmp_path / name, tmp_path / "stock_5")
    assert not [name for name in os.listdir(tmp_path) if "temp" in name]


@pytest.mark.slow
def test_what_one_rank_restored_last_is_what_all_ranks_have(tmp_path: Path) -> None:
    remote = "ram://savers/second"  # as those of clusters, a file system of TensorFlow
    tf.gfile.MakeDirs("ram://savers")

    def train(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default():
            model = Model(transport.rank, transport.size)
            saver = tf.train.Saver()
            names = ("dense", "global_step", "beta1_power", "beta2_power")
            shared = tf.train.Saver([v for v in tf.global_variables() if v.op.name in names])
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for path in (str(tmp_path / "first"), remote):
                    model.run(session, 1)
                    if transport.rank == 0:
                        saver.save(session, path)
                model.run(session, 1)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                if transport.rank == 0:
                    saver.restore(session, str(tmp_path / "first"))
                    saver.restore(session, remote)
                else:
                    shared.restore(session, remote)
                model.run(session, 1)
                if transport.rank == 0:
                    saver.save(session, str(tmp_path / "third"))

    run_ranks(2, train)
    stock(tmp_path / "stock", 3)
    check_equal(tmp_path / "third", tmp_path / "stock")


def test_rows_that_all_ranks_write_after_a_restore_stay(tmp_path: Path) -> None:
    def saved(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            model = Model(transport.rank, transport.size)
            session.run(tf.global_variables_initializer())
            model.run(session, 1)
            if transport.rank == 0:
                tf.train.Saver().save(session, str(tmp_path / "model"))
            model.run(session, 1)

    def trained(transport: Transport) -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            model = Model(transport.rank, transport.size)
            still = tf.group(
                sok.lookup_sparse(model.tables, [ONE_BAG, ONE_BAG])
            )  # a step moves no row
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            if transport.rank == 0:
                saver.restore(session, str(tmp_path / "model"))
            users, items = model.tables
            users.load(session.run(tf.fill(users.shape, 7.0)), session)
            session.run(still)
            return session.run([users, items])

    run_ranks(2, saved)
    parts = run_ranks(2, trained)
    for users, _ in parts:
        np.testing.assert_array_equal(users, np.full_like(users, 7.0))
    items = tf.train.load_variable(str(tmp_path / "model"), "items")
    np.testing.assert_array_equal(np.concatenate([of_rank[1] for of_rank in parts]), items)


@pytest.mark.slow
def test_every_kind_of_saver(tmp_path: Path) -> None:
    def train(transport: Transport) -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            model = Model(transport.rank, transport.size)
            users = model.tables[0]
            savers = {
                "sharded": tf.train.Saver(sharded=True, max_to_keep=2),
                "named": tf.train.Saver({"people": users, "dense": tf.global_variables()[2]}),
                "tables": tf.train.Saver(model.tables),
                "all": tf.train.Saver(),
            }
            old = tf.train.Saver(write_version=tf.train.SaverDef.V1)
            session.run(tf.global_variables_initializer())
            model.run(session, 2)
            if transport.rank == 1:  # any rank may
                for name, saver in savers.items():
                    saver.save(session, str(tmp_path / name / "model"), global_step=1)
                with pytest.raises(tf.errors.UnimplementedError, match=r"of version 1.*'items"):
                    old.save(session, str(tmp_path / "old"))
                for step in (2, 3):
                    savers["sharded"].save(session, str(tmp_path / "sharded" / "model"), step)
            model.run(session, 1)
            before = session.run([sok.export(table) for table in model.tables])
            savers["all"].save(session, str(tmp_path / "model"))  # all ranks, to the same place
            model.run(session, 1)
            if transport.rank == 1:
                savers["all"].restore(session, str(tmp_path / "model"))
            else:  # what all ranks share
                session.run(tf.assign(tf.train.get_global_step(), 3))
            session.run(model.loss)  # the next step of all ranks
            return before, session.run([sok.export(table) for table in model.tables])

    for before, after in run_ranks(2, train):
        tf.nest.map_structure(np.testing.assert_array_equal, before, after)
    path = tf.train.latest_checkpoint(str(tmp_path / "sharded"))
    state = tf.train.get_checkpoint_state(str(tmp_path / "sharded"))
    assert [one[-1] for one in state.all_model_checkpoint_paths] == ["2", "3"]
    assert not (tmp_path / "sharded" / "model-1.index").exists()
    stock(tmp_path / "stock", 2)
    check_equal(path, tmp_path / "stock")
    check_equal(tmp_path / "all" / "model-1", tmp_path / "stock")
    assert tf.train.list_variables(str(tmp_path / "named" / "model-1")) == [
        ("dense", [2, 1]),
        ("people", [11, 2]),
    ]
    assert len(tf.train.list_variables(str(tmp_path / "tables" / "model-1"))) == 2
    assert not list(tmp_path.glob("**/*temp*"))


@pytest.mark.slow
def test_monitored_sessions_save_on_one_rank(tmp_path: Path) -> None:
    def train(transport: Transport, last_step: int) -> None:
        with communicating_through(transport), tf.Graph().as_default():
            model = Model(transport.rank, transport.size)
            # As a broadcast does: the step that all ranks begin with is that of rank 0.
            step = tf.train.get_global_step()
            name = transport.message_name("step")
            share = tf.assign(step, transport.broadcast(step, 0, name))
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path / "model") if transport.rank == 0 else None,
                save_checkpoint_steps=2,
                hooks=[tf.train.StopAtStepHook(last_step=last_step), AfterCreation(share)],
            ) as session:
                while not session.should_stop():
                    session.run(model.train)

    class AfterCreation(tf.train.SessionRunHook):
        def __init__(self, operation: Any) -> None:
            self._operation = operation

        def after_create_session(self, session: Any, coord: Any) -> None:
            session.run(self._operation)

    run_ranks(2, lambda transport: train(transport, 3))
    run_ranks(3, lambda transport: train(transport, 5))
    names = [name for name in os.listdir(tmp_path / "model") if name.endswith(".index")]
    assert sorted(names) == ["model.ckpt-{}.index".format(step) for step in (0, 2, 3, 5)]


def test_slots_of_an_optimizer_of_release_1_are_saved_whole(tmp_path: Path) -> None:
    def work(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            layer = sok.All2AllDenseEmbedding(20, 2, 1, 1, embedding_initializer="ones")
            keys = tf.constant([[[7]], [[8]], [[9 + transport.rank]]], tf.int64)
            table = layer.embedding_variable
            loss = tf.reduce_sum(layer(keys, training=True))
            train = sok.optimizers.Adam(0.1).apply_gradients(
                [(tf.gradients(loss, table)[0], table)]
            )
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            session.run(train)
            if transport.rank == 0:
                saver.save(session, str(tmp_path / "model"))

    run_ranks(2, work, 60)
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    for rank, mine in ((0, [8, 10]), (1, [7, 9])):
        part = "EmbeddingVariable/part_{}".format(rank)
        keys = reader.get_tensor(part + "-keys").tolist()
        first_moments = reader.get_tensor(part + "/plugin_adam/m-values")
        assert keys == mine
        expected = [[0.2 if key < 9 else 0.1] * 2 for key in keys]
        np.testing.assert_allclose(first_moments, expected, rtol=1e-6)
