"""`sok.DynamicVariable`: rows for keys as they come, the same on any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest
from tensorflow.python.eager import context

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.session.graph_records import report_of
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sharding.transport_in_use import communicating_through
from tests.passes import fused_models
from tests.release_features import keras_optimizers

DIM = 4
KEYS = [5, -7, 2**40, 5, 12, 0, -1, 33]


def on_ranks(size: int, program: Callable[[Any], Any]) -> List[Any]:
    def of_rank(transport: InProcessTransport) -> Any:
        with communicating_through(transport):
            return program(transport)

    return run_ranks(size, of_rank, 60)


def bags_of(transport: Any) -> Any:
    """Two keys in a bag, of which each rank has some."""
    pairs = np.array(KEYS, np.int64).reshape([-1, 2])
    mine = np.array_split(pairs, transport.size)[transport.rank]
    return tf.RaggedTensor.from_tensor(tf.constant(mine, tf.int64))


def merged(ranks: List[Dict[int, Any]]) -> Dict[int, Any]:
    """Rows of all ranks by key; no key is on two ranks."""
    found: Dict[int, Any] = {}
    for rows in ranks:
        assert not set(found) & set(rows)
        found.update(rows)
    return found


def by_key(rows: Any) -> Dict[int, np.ndarray]:
    return dict(zip(np.asarray(rows[0]).tolist(), np.asarray(rows[1])))


def trained(optimizer: Callable[[], Any]) -> Callable[[Any], Any]:
    def program(transport: Any) -> Any:
        with tf.Graph().as_default(), tf.Session() as session:
            users = sok.DynamicVariable(DIM, name="users", initializer="normal")
            items = sok.DynamicVariable(DIM, name="items", var_type="hbm", mode="localized:0")
            static = sok.Variable(np.ones([40, DIM], np.float32), name="static")
            ids = bags_of(transport)
            pooled = sok.lookup_sparse(
                [users, items, static, users],
                [ids, ids, tf.RaggedTensor.from_tensor(ids.to_tensor() % 40), ids],
                combiners=["sum", "mean", "sum", "mean"],
            )
            loss = tf.add_n([tf.reduce_sum(tf.square(one)) for one in pooled])
            tables, others = sok.filter_variables(tf.trainable_variables())
            assert [one.name for one in tables] == ["users:0", "items:0", "static:0"] and not others
            wrapper = sok.OptimizerWrapper(optimizer())
            train = wrapper.apply_gradients(zip(tf.gradients(loss, tables), tables))
            slots = [wrapper.get_slot(users, name) for name in wrapper.get_slot_names()]
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            rows = session.run([sok.export(one) for one in (users, items, *slots)])
            sizes = session.run([users.size, items.size])
            assert [size.tolist() for size in sizes] == [[len(one[0]), DIM] for one in rows[:2]]
            return [by_key(one) for one in rows]

    return program


@pytest.mark.parametrize(
    "optimizer",
    [
        pytest.param(lambda: tf.train.AdagradOptimizer(0.1), marks=pytest.mark.slow),
        lambda: keras_optimizers().Adam(0.1),
    ],
    ids=["Adagrad", "legacy Adam"],
)
def test_training_gives_the_same_rows_on_any_number_of_ranks(optimizer: Any) -> None:
    (alone,) = on_ranks(1, trained(optimizer))
    ranks = on_ranks(2, trained(optimizer))
    assert not ranks[1][1]  # all items are on rank 0
    for place, expected in enumerate(alone):
        found = merged([one[place] for one in ranks])
        assert sorted(found) == sorted(expected) == sorted(set(KEYS))
        for key, row in expected.items():
            np.testing.assert_allclose(found[key], row, rtol=1e-5, atol=1e-6)
        if place == 0:
            assert all(key % 2 == rank for rank, one in enumerate(ranks) for key in one[0])


def test_eager_tables_train_and_are_assigned() -> None:
    def program(transport: Any) -> Any:
        with context.eager_mode():
            table = sok.DynamicVariable(DIM, name="users", initializer="ones", var_type="hbm")
            wrapper = sok.OptimizerWrapper(keras_optimizers().SGD(0.5))
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(sok.lookup_sparse(table, bags_of(transport), combiners="sum"))
            wrapper.apply_gradients([(tape.gradient(loss, table), table)])
            sok.assign(table, [12, 77], np.full([2, DIM], 3.0, np.float32), check_ownership=False)
            return by_key(sok.export(table))

    rows = merged(on_ranks(2, program))
    assert rows[5].tolist() == [0.0] * DIM and rows[0].tolist() == [0.5] * DIM
    assert rows[12].tolist() == rows[77].tolist() == [3.0] * DIM
    assert sorted(rows) == sorted({*KEYS, 77})


def test_a_filter_is_asked_only_where_a_lookup_wants_it() -> None:
    def program(transport: Any) -> Any:
        with tf.Graph().as_default(), tf.Session() as session:
            table = sok.DynamicVariable(DIM, initializer="ones", filter_ratio=0.5)
            many = tf.RaggedTensor.from_tensor(tf.reshape(tf.range(400, dtype=tf.int64), [-1, 1]))
            filtered, plain = (
                sok.lookup_sparse(table, many, combiners="sum", use_low_frequency_filter=asks)
                for asks in (True, False)
            )
            session.run(table.initializer)
            rows = session.run(filtered)
            size = int(session.run(table.size)[0])
            assert rows.any(axis=1).sum() == size
            assert session.run(plain).all() and session.run(table.size)[0] == 400
            return size

    (size,) = on_ranks(1, program)
    assert 120 < size < 280


def test_rows_that_a_full_table_gives_up_are_handed_out() -> None:
    def program(transport: Any) -> None:
        with tf.Graph().as_default(), tf.Session() as session:
            table = sok.DynamicVariable(DIM, initializer="11", max_capacity=8)
            first, later = np.arange(8), np.arange(100, 108)
            rows, keys, evicted = sok.sparse_read_and_evict(table, tf.constant(first))
            loss = tf.reduce_sum(tf.square(rows - 10.0)) / 2.0
            train = sok.SGD(lr=1.0).apply_gradients([(tf.gradients(loss, table)[0], table)])
            again = sok.sparse_read_and_evict(table, later)
            session.run(table.initializer)
            read, none, _ = session.run([rows, keys, train])
            assert read.tolist() == [[11.0] * DIM] * 8 and not len(none)
            read, keys, evicted = session.run(again)
            assert read.tolist() == [[11.0] * DIM] * 8
            assert sorted(keys) == list(first) and evicted.tolist() == [[10.0] * DIM] * 8
            assert session.run(table.size).tolist() == [8, DIM]
            unbounded = sok.DynamicVariable(DIM, var_type="hbm")
            with pytest.raises(TypeError, match="never evicts"):
                sok.sparse_read_and_evict(unbounded, later)

    on_ranks(1, program)


def test_tables_are_dumped_and_loaded_on_another_number_of_ranks(tmp_path: Path) -> None:
    folder = str(tmp_path / "dump")

    def session_of(transport: Any, then: Callable[[Any, Any, Any], None]) -> Any:
        with tf.Graph().as_default(), tf.Session() as session:
            table = sok.DynamicVariable(DIM, name="users", initializer="normal")
            loss = tf.reduce_sum(tf.square(sok.lookup_sparse(table, bags_of(transport))))
            wrapper = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))
            train = wrapper.apply_gradients([(tf.gradients(loss, table)[0], table)])
            slot = wrapper.get_slot(table, "accumulator")
            rows = [sok.export(one) for one in (table, slot)]
            session.run(tf.global_variables_initializer())
            if then is dumped:
                session.run(train)
            then(session, table, wrapper)
            return [by_key(one) for one in session.run(rows)]

    def dumped(session: Any, table: Any, wrapper: Any) -> None:
        sok.dump(folder, [table], wrapper, session)

    def loaded(session: Any, table: Any, wrapper: Any) -> None:
        sok.load(folder, [table], wrapper, session)

    before = on_ranks(2, lambda transport: session_of(transport, dumped))
    after = on_ranks(3, lambda transport: session_of(transport, loaded))
    for place in (0, 1):
        expected, found = (merged([one[place] for one in ranks]) for ranks in (before, after))
        assert sorted(found) == sorted(expected) == sorted(set(KEYS))
        for key, row in expected.items():
            np.testing.assert_array_equal(found[key], row)


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        (dict(max_capacities=3), TypeError, "has no option max_capacities"),
        (dict(evict_strategy="fifo"), ValueError, "evict_strategy of 't' is 'fifo'"),
        (dict(filter_ratio=0), ValueError, "filter_ratio of 't' is 0"),
        (dict(var_type="gpu"), ValueError, "var_type of 't' is 'gpu'"),
        (dict(key_type=tf.int32), NotImplementedError, "hybrid table, whose keys are int64"),
        (dict(dtype=tf.float16), NotImplementedError, "rows of float32"),
        (dict(mode="localized:5"), RuntimeError, "but there are 1 ranks"),
        (dict(initializer=lambda shape, dtype: None), NotImplementedError, "drawn as by an"),
    ],
)
def test_wrong_arguments_are_errors(arguments: Any, error: Any, text: str) -> None:
    def program(transport: Any) -> None:
        with tf.Graph().as_default(), pytest.raises(error, match=text):
            sok.DynamicVariable(DIM, name="t", **arguments)

    on_ranks(1, program)


def losses_of(transport: Any, config: Any) -> Any:
    """Losses of some steps, and what the session did to the lookups."""
    with tf.Graph().as_default():
        rows = np.random.RandomState(0).randint(-50, 50, [40, 3])[transport.rank :: transport.size]
        batches = tf.data.Dataset.from_tensor_slices(rows).repeat().batch(4)
        ids = tf.RaggedTensor.from_tensor(tf.data.make_one_shot_iterator(batches).get_next())
        users = sok.DynamicVariable(DIM, name="users", initializer="normal")
        static = sok.Variable(np.ones([100, DIM], np.float32), name="static")
        pooled = sok.lookup_sparse([users, static], [ids, ids + 50], combiners=["sum", "sum"])
        loss = tf.add_n([tf.reduce_sum(tf.square(one)) for one in pooled])
        tables, _ = sok.filter_variables(tf.trainable_variables())
        optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.05))
        train = optimizer.apply_gradients(zip(tf.gradients(loss, tables), tables))
        initialize = tf.global_variables_initializer()
        opened = tf.Session() if config is None else graph_opt.Session(config=config)
        with opened as session:
            session.run(initialize)
            losses = [session.run([loss, train])[0] for _ in range(5)]
            return losses, report_of(tf.get_default_graph())


def test_updates_are_fused_and_lookups_prefetched() -> None:
    stock = on_ranks(2, lambda transport: losses_of(transport, None))
    fused = on_ranks(2, lambda transport: losses_of(transport, fused_models.config()))
    for (ours, report), (theirs, _) in zip(fused, stock):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        assert [lookup.update for lookup in report.fused_lookups] == ["fused"] * 2
    ahead = fused_models.config(prefetch=True)
    for losses, report in on_ranks(2, lambda transport: losses_of(transport, ahead)):
        assert len(report.moved) == 2 and losses[-1] < 2 * losses[0]
