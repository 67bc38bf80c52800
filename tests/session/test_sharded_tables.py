"""Sessions shard the tables of a replicated script across ranks, which are threads here."""

from __future__ import annotations

import threading
from itertools import product
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.embedding.marked_tables import mark_table
from graph_opt.sharding.in_process import InProcessTransport
from tests.quick_cases import slow_but
from tests.session import replicated_model as replicated

STEPS = 4
MERGED = "the updates of 2 tables, which ranks share, are one op"
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
}


def joined(parts: List[Dict[str, Any]], name: str) -> np.ndarray:
    """A whole variable, of the rows of all ranks."""
    rows = {key: row for part in parts for key, row in part[name].items()}
    assert sum(len(part[name]) for part in parts) == len(rows) == replicated.ROWS
    return np.stack([rows[key] for key in range(replicated.ROWS)])


def require_same(parts: List[Dict[str, Any]], whole: Dict[str, np.ndarray]) -> None:
    assert parts[0]
    for name in parts[0]:
        np.testing.assert_allclose(joined(parts, name), whole[name], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name, use_resource",
    slow_but(product(sorted(OPTIMIZERS), [False, True]), ("adam", True)),
)
def test_ranks_train_their_rows_as_one_process_trains_all(name: str, use_resource: bool) -> None:
    def work(transport: InProcessTransport) -> Any:
        model = replicated.build(OPTIMIZERS[name](), transport, use_resource)
        with graph_opt.Session(config=replicated.sharding()) as session:
            session.run(tf.global_variables_initializer())
            for step in range(STEPS):
                session.run(model.train, replicated.feed(model, step, transport.rank))
            report = graph_opt.report(session.graph)
            assert report is not None
            assert (MERGED in report.changes) == (name == "adagrad")  # Adam moves all rows
            return replicated.parts(session)

    whole = replicated.stock(OPTIMIZERS[name], STEPS, use_resource=use_resource)
    parts = replicated.on_ranks(work)
    assert len(parts[0]) == 2 * (3 if name == "adam" else 2)
    require_same(parts, whole)


def test_variables_are_whole_to_whoever_fetches_or_sets_them() -> None:
    given = np.arange(replicated.ROWS * 8, dtype=np.float32).reshape([-1, 8])
    errors, both = tf.errors.InvalidArgumentError, threading.Barrier(2)

    def work(transport: InProcessTransport) -> Any:
        model = replicated.build(tf.train.AdagradOptimizer(0.1), transport, transport.rank == 2)
        users, slot = (model.tables["users"], "accumulator")
        read = tf.identity(users)  # whose value nothing needs
        early = tf.assign(users, given + 1)
        with graph_opt.Session(config=replicated.sharding()) as session:
            session.run(tf.global_variables_initializer())
            first = session.run({"users": users, "all": [model.optimizer.get_slot(users, slot)]})
            _, step, trained = session.run(
                [model.train, tf.train.get_global_step(), read],
                replicated.feed(model, 0, transport.rank),
            )
            assert step in (0, 1) and trained.shape == (37, 8)
            users.load(given, session)
            both.wait()
            loaded = replicated.parts(session), session.run(users.op.outputs[0])
            with pytest.raises(
                errors, match=r"need the whole variable 'users', of shape \[37, 8\]"
            ):
                users.load(given[:18], session)
            both.wait()
            with pytest.raises(errors, match="do not read this tensor"):
                accumulator = model.optimizer.get_slot(users, slot)
                session.run(accumulator.initializer, {whole_of(accumulator): given})
            with pytest.raises(errors, match=r"ranks, and this one has 1[89] of its 37 rows"):
                session.make_callable(users)
            if transport.rank == 0:  # what it has assigned, whatever other ranks have by now
                np.testing.assert_array_equal(session.run(early), given + 1)
            assigned = session.run(tf.assign(users, users.initial_value * 0 + 3))
            for late in (tf.norm(users), tf.nn.embedding_lookup(users, [0])):
                with pytest.raises(errors, match="it cannot be read whole"):
                    session.run(late)
            session.run(model.train, replicated.feed(model, 0, transport.rank))
            return first, loaded, assigned

    def whole_of(variable: Any) -> Any:
        return variable.graph.get_tensor_by_name(variable.op.name + "/Initializer/Const:0")

    stock = replicated.stock(OPTIMIZERS["adagrad"], 0)
    results = replicated.on_ranks(work)
    for first, loaded, assigned in results:
        np.testing.assert_array_equal(first["users"], stock["users"])
        np.testing.assert_array_equal(first["all"][0], stock["users/Adagrad"])
        np.testing.assert_array_equal(loaded[1], given)
        np.testing.assert_array_equal(assigned, np.full_like(given, 3))
    np.testing.assert_array_equal(joined([loaded[0] for _, loaded, _ in results], "users"), given)


def test_what_all_ranks_load_after_one_has_restored_stays(tmp_path: Path) -> None:
    given = np.arange(replicated.ROWS * 8, dtype=np.float32).reshape([-1, 8])
    prefix = str(tmp_path / "model")

    def work(transport: InProcessTransport, restores: bool) -> Any:
        # A step moves no row.
        model = replicated.build(tf.train.AdagradOptimizer(0.0), transport)
        saver = tf.train.Saver()
        with graph_opt.Session(config=replicated.sharding()) as session:
            session.run(tf.global_variables_initializer())
            if restores:
                if transport.rank == 0:
                    saver.restore(session, prefix)
                model.tables["users"].load(given, session)
            session.run(model.train, replicated.feed(model, 0, transport.rank))
            if not restores and transport.rank == 0:
                saver.save(session, prefix)
            return replicated.parts(session)

    saved = replicated.on_ranks(lambda transport: work(transport, False))
    parts = replicated.on_ranks(lambda transport: work(transport, True))
    assert not np.array_equal(joined(saved, "users"), given)
    np.testing.assert_array_equal(joined(parts, "users"), given)
    np.testing.assert_array_equal(joined(parts, "items"), tf.train.load_variable(prefix, "items"))


def test_the_report_says_what_each_rank_holds() -> None:
    def work(transport: InProcessTransport) -> Any:
        model = replicated.build(tf.train.AdagradOptimizer(0.1), transport)
        tf.summary.scalar("norm", tf.norm(model.tables["items"]))
        with graph_opt.Session(config=replicated.sharding(tables=["items"])) as session:
            session.run(tf.global_variables_initializer())
        report = graph_opt.report(tf.get_default_graph())
        assert report is not None
        return report

    for rank, report in enumerate(replicated.on_ranks(work)):
        (users,) = report.sharded
        rows = 19 - rank
        assert (users.name, users.slots) == ("users", ("users/Adagrad",))
        assert (users.bytes, users.bytes_here) == (2 * 37 * 8 * 4, 2 * rows * 8 * 4)
        (refused,) = [one for one in report.tables if not one.rule]
        assert refused.name == "items" and refused.refusal["code"] == "table_read_whole"
        assert "table 'items' was to be sharded and stays whole" in str(report)
        assert "row i on rank i % 2" in str(report)


@pytest.mark.parametrize(
    "budget, sharded, redrawn",
    [
        (2 * 37 * 4 * 4 + 2 * 19 * 8 * 4, {"users"}, True),
        (2 * 37 * 8 * 4 - 1, {"users", "items"}, False),
        (1 << 20, set(), False),
    ],
)
def test_a_budget_divides_the_largest_first(budget: int, sharded: Any, redrawn: bool) -> None:
    def work(transport: InProcessTransport) -> Any:
        replicated.build(tf.train.AdagradOptimizer(0.1), transport)
        config = replicated.sharding(min_table_bytes=0, memory_budget_bytes=budget)
        with graph_opt.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
        return graph_opt.report(tf.get_default_graph())

    for report in replicated.on_ranks(work):
        assert {one.name for one in report.sharded} == sharded


def test_initial_values_over_the_budget_are_drawn_row_by_row() -> None:
    def work(transport: InProcessTransport) -> Any:
        replicated.build(tf.train.AdagradOptimizer(0.1), transport)
        with graph_opt.Session(config=replicated.sharding(memory_budget_bytes=1000)) as session:
            session.run(tf.global_variables_initializer())
            return replicated.parts(session), str(graph_opt.report(tf.get_default_graph()))

    for ranks in (2, 3):
        results = replicated.on_ranks(work, ranks)
        parts = [part for part, _ in results]
        users = joined(parts, "users")
        assert users.min() > -1 and users.max() < 1 and 0.4 < users.std() < 0.75
        assert "1 variable drawn row by row" in results[0][1]
        assert "more than shard_tables_options.memory_budget_bytes" in results[0][1]
        if ranks == 2:
            of_two = users
    np.testing.assert_array_equal(of_two, users)


def test_initial_values_that_are_made_whole_are_named() -> None:
    def initial(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        return tf.exp(tf.random_uniform(shape, 0, 1, dtype))

    def work(transport: InProcessTransport) -> Any:
        replicated.build(tf.train.AdagradOptimizer(0.1), transport, initializer=initial)
        with graph_opt.Session(config=replicated.sharding(memory_budget_bytes=1000)) as session:
            session.run(tf.global_variables_initializer())
            assert min(row.min() for row in replicated.parts(session)["users"].values()) >= 1
        return str(graph_opt.report(tf.get_default_graph()))

    report = replicated.on_ranks(work)[0]
    assert "every rank makes all initial values of 'users'" in report
    assert "initial values of 'users/Adagrad'" not in report


def test_tables_start_from_checkpoints_of_their_own(tmp_path: Path) -> None:
    values = {}
    for name, width in replicated.WIDTHS.items():
        with tf.Graph().as_default(), tf.Session() as session:
            table = tf.get_variable("table", [replicated.ROWS, width])
            session.run(table.initializer)
            values[name] = session.run(table)
            tf.train.Saver().save(session, str(tmp_path / name))

    def work(transport: InProcessTransport) -> Any:
        model = replicated.build(tf.train.AdagradOptimizer(0.1), transport)
        for name, table in model.tables.items():
            tf.train.init_from_checkpoint(str(tmp_path / name), {"table": table})
        with graph_opt.Session(config=replicated.sharding()) as session:
            session.run(tf.global_variables_initializer())
            return replicated.parts(session)

    parts = replicated.on_ranks(work)
    for name, value in values.items():
        np.testing.assert_array_equal(joined(parts, name), value)


def test_initial_values_may_share_what_they_are_made_of() -> None:
    def tables() -> List[Any]:
        base = tf.random.uniform([replicated.ROWS, 4], seed=1)
        values = [base, tf.random.uniform([replicated.ROWS, 4], seed=2), 2 * base]
        return [
            tf.get_variable("table_{}".format(i), initializer=value, use_resource=True)
            for i, value in enumerate(values)
        ]

    def work(transport: InProcessTransport) -> Any:
        made = tables()
        ids = tf.constant([1, 2], tf.int64)
        loss = tf.add_n([tf.reduce_sum(tf.nn.embedding_lookup(one, ids)) for one in made])
        gradients = [replicated.averaged(one, transport) for one in tf.gradients(loss, made)]
        tf.train.GradientDescentOptimizer(0.1).apply_gradients(zip(gradients, made))
        with graph_opt.Session(config=replicated.sharding()) as session:
            session.run(tf.global_variables_initializer())
            return replicated.parts(session)

    parts = replicated.on_ranks(work)
    with tf.Graph().as_default(), tf.Session() as session:
        made = tables()
        session.run(tf.global_variables_initializer())
        require_same(parts, session.run({one.op.name: one for one in made}))
    assert len(parts[0]) == 3


def test_tables_whose_slices_are_of_several_batches_stay_whole() -> None:
    def work(transport: InProcessTransport) -> str:
        datasets = [tf.data.Dataset.range(100).batch(4) for _ in range(2)]
        ids = [tf.data.make_one_shot_iterator(one).get_next() % 37 for one in datasets]
        both = [tf.get_variable(name, [37, 8], use_resource=True) for name in ("users", "items")]
        rows = [tf.nn.embedding_lookup(both[0], one) for one in ids]
        rows.append(tf.nn.embedding_lookup(both[1], ids[0]))
        loss = tf.add_n([tf.reduce_sum(tf.square(one)) for one in rows])
        clipped, _ = tf.clip_by_global_norm(tf.gradients(loss, both), 0.5)
        gradients = [replicated.averaged(one, transport) for one in clipped]
        train = tf.train.AdagradOptimizer(0.1).apply_gradients(zip(gradients, both))
        with graph_opt.Session(config=replicated.sharding(tables=["users"])) as session:
            session.run(tf.global_variables_initializer())
            session.run(train)
        return str(graph_opt.report(tf.get_default_graph()))

    report = replicated.on_ranks(work)[0]
    assert "1 of 2 sharded" in report and "or from another batch" in report
    assert "table 'users' was to be sharded and stays whole on every rank" in report


def test_nothing_is_divided_without_training_or_without_ranks() -> None:
    def work(transport: InProcessTransport) -> Any:
        model = replicated.build(tf.train.AdagradOptimizer(0.1), transport)
        tf.add_to_collection(tf.GraphKeys.EVAL_STEP, tf.train.get_global_step())
        with graph_opt.Session(config=replicated.sharding()) as session:
            session.run(tf.global_variables_initializer())
            whole = session.run(model.tables["users"]).shape
        return whole, str(graph_opt.report(tf.get_default_graph()))

    whole, report = replicated.on_ranks(work)[0]
    assert whole == (37, 8) and "the graph trains nothing, so its tables stay whole" in report
    with tf.Graph().as_default() as graph:
        replicated.build(tf.train.AdagradOptimizer(0.1))
        with graph_opt.Session(config=replicated.sharding()) as session:
            session.run(tf.global_variables_initializer())
        assert "not one of several ranks" in str(graph_opt.report(graph))


def test_nothing_is_sharded_across_ranks_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(transport: InProcessTransport) -> str:
        model = replicated.build(tf.train.AdagradOptimizer(0.1), transport)
        mark_table(model.tables["items"])
        with graph_opt.Session(config=replicated.sharding()) as session:
            session.run(tf.global_variables_initializer())
            assert session.run(model.tables["users"]).shape == (37, 8)
        return str(graph_opt.report(tf.get_default_graph()))

    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    for report in replicated.on_ranks(work):
        assert "tables: 0 of 2 sharded" in report
        assert report.count("whole, but could be sharded") == 2
        assert "no table is sharded: Horovod is elastic" in report


def test_marked_tables_are_divided_whatever_the_config() -> None:
    def work(transport: InProcessTransport) -> Any:
        model = replicated.build(tf.train.AdagradOptimizer(0.1), transport)
        mark_table(model.tables["items"])
        with graph_opt.Session() as session:
            session.run(tf.global_variables_initializer())
            report = graph_opt.report(tf.get_default_graph())
            return [one.name for one in report.sharded] if report is not None else None

    assert replicated.on_ranks(work) == [["items"], ["items"]]
