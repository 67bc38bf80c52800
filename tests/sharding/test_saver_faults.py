"""What a saver of sharded tables says when it cannot save or restore them."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.distributed_embeddings import DistributedEmbedding, Embedding
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through

USERS = np.arange(22, dtype=np.float32).reshape(11, 2)


def make(session_only: bool = False) -> Any:
    """A table, and a step that all ranks run."""
    table = sok.Variable(USERS, name="users")
    tf.train.get_or_create_global_step()
    if session_only:
        return table, None
    rows: Any = sok.all2all_dense_embedding(table, tf.constant([0, 1]))
    return table, tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows), var_list=[table])


def test_checkpoints_that_do_not_fit_are_named(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.get_or_create_global_step()
        tf.Variable(np.zeros([6, 2], np.float32), name="users", use_resource=True)
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "part"))
        tf.train.Saver([tf.train.get_global_step()]).save(session, str(tmp_path / "none"))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.get_or_create_global_step()
        tf.Variable(USERS, name="users", use_resource=True)
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "whole"))
    written = (tmp_path / "whole.data-00000-of-00001").read_bytes()
    for name, content in {
        "cut": written[:40],
        "damaged": written.replace(USERS[0].tobytes(), USERS[1].tobytes()),
    }.items():
        shutil.copy(str(tmp_path / "whole.index"), str(tmp_path / name) + ".index")
        (tmp_path / (name + ".data-00000-of-00001")).write_bytes(content)

    def restore(transport: Transport) -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            table, _ = make(session_only=True)
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            before = session.run(sok.export(table))
            message = (
                r"users of checkpoint .*part has shape \[6, 2\].*the whole table has \[11, 2\]"
            )
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                saver.restore(session, str(tmp_path / "part"))
            with pytest.raises(tf.errors.NotFoundError, match="Key users not found in checkpoint"):
                saver.restore(session, str(tmp_path / "none"))
            with pytest.raises(tf.errors.DataLossError, match="ends before its tensors do"):
                saver.restore(session, str(tmp_path / "cut"))
            with pytest.raises(tf.errors.DataLossError, match="is damaged: 'users'"):
                saver.restore(session, str(tmp_path / "damaged"))
            with pytest.raises(ValueError, match="not a valid checkpoint"):
                saver.restore(session, str(tmp_path / "missing"))
            with pytest.raises(ValueError, match=r"Parent directory of .* doesn't exist"):
                saver.save(session, str(tmp_path / "no" / "such" / "folder"))
            return before, session.run(sok.export(table))

    for before, after in run_ranks(2, restore):
        tf.nest.map_structure(np.testing.assert_array_equal, before, after)


def test_a_rank_that_fails_leaves_the_earlier_checkpoint(tmp_path: Path) -> None:
    path = str(tmp_path / "model")
    errors: List[str] = []

    def train(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            _, step = make()
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            session.run(step)
            if transport.rank == 0:
                saver.save(session, path)
            session.run(step)
            if transport.rank == 1:
                raise KeyError("a bug of the script")
            try:
                while True:  # the other rank may not have raised yet
                    saver.save(session, path)
            except tf.errors.OpError as error:
                errors.append(str(error))
                raise

    with pytest.raises(KeyError):
        run_ranks(2, train)
    assert "rank 1" in errors[0]
    assert tf.train.load_variable(path, "users").shape == (11, 2)
    assert not [name for name in os.listdir(tmp_path) if "temp" in name]


def test_a_rank_that_exits_serves_its_rows_until_the_others_are_done(tmp_path: Path) -> None:
    leaving = threading.Event()

    def work(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default():
            _, train = make()
            saver = tf.train.Saver()
            with contextlib.suppress(SystemExit), tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(train)
                if transport.rank == 1:
                    leaving.set()
                    sys.exit()
                assert leaving.wait(60)
                saver.save(session, str(tmp_path / "model"))

    run_ranks(2, work)
    assert tf.train.load_variable(str(tmp_path / "model"), "users").shape == USERS.shape


def test_a_rank_that_exits_does_not_wait_for_one_that_begins_another_kind_of_step() -> None:
    def work(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            table, train = make()
            rows: Any = sok.all2all_dense_embedding(table, tf.constant([2]))
            session.run(tf.global_variables_initializer())
            session.run(train)
            if transport.rank == 0:
                session.run(rows)

    with pytest.raises(tf.errors.UnknownError, match="rank 1 has ended"):
        run_ranks(2, work)


def test_imported_graphs_save_and_restore_whole_tables(tmp_path: Path) -> None:
    path = str(tmp_path / "model")

    def build(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            _, step = make()
            session.run(tf.global_variables_initializer())
            session.run(step)
            if transport.rank == 1:
                tf.train.Saver().save(session, path)
            session.run(step)

    def load(transport: Transport) -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            saver = tf.train.import_meta_graph(path + ".meta")
            if transport.rank == 0:
                with pytest.raises(
                    tf.errors.FailedPreconditionError, match=r"of rank 1 of 2.*rank 0"
                ):
                    saver.restore(session, path)
                return None
            saver.restore(session, path)
            parts = {one.op.name: one for one in tf.global_variables()}
            return session.run([parts[name].value() for name in ("users", "users/Adagrad")])

    run_ranks(2, build)
    rows, slot = run_ranks(2, load)[1]
    np.testing.assert_array_equal(rows, tf.train.load_variable(path, "users")[1::2])
    np.testing.assert_array_equal(slot, tf.train.load_variable(path, "users/Adagrad")[1::2])


@pytest.mark.slow
def test_layers_with_merged_variables_are_saved_as_their_tables(tmp_path: Path) -> None:
    def build(transport: Transport, restored: str, saved: str) -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            tables = [
                Embedding(rows, width, combiner="sum", name="table_{}".format(place))
                for place, (rows, width) in enumerate(((9, 4), (7, 4), (12, 6), (31, 5)))
            ]
            layer = DistributedEmbedding(
                tables,
                strategy="memory_balanced",
                column_slice_threshold=40,
                row_slice_threshold=100,
                name="layer",
            )
            pooled = layer([tf.constant([[0, 1]], tf.int64)] * 4)
            loss = tf.add_n([tf.reduce_sum(tf.square(one)) for one in pooled])
            train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            if restored and transport.rank == 0:
                saver.restore(session, restored)
                saver.save(session, again)  # before the others have restored
            session.run(loss)
            if saved and transport.rank == 0:
                saver.save(session, saved)
            session.run(train)
            return layer.get_weights(session=session)

    first, again, second = (str(tmp_path / name) for name in ("first", "again", "second"))
    run_ranks(2, lambda transport: build(transport, "", first))
    run_ranks(3, lambda transport: build(transport, first, second))
    names = dict(tf.train.list_variables(first))
    assert names == dict(tf.train.list_variables(second)) == dict(tf.train.list_variables(again))
    shapes = sorted(shape for name, shape in names.items() if "Momentum" not in name)
    assert shapes == [[7, 4], [9, 4], [12, 6], [31, 5]]
    for name in names:
        for other in (again, second):
            np.testing.assert_array_equal(
                tf.train.load_variable(first, name), tf.train.load_variable(other, name)
            )
