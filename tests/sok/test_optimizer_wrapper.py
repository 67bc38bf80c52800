"""`sok.OptimizerWrapper` on N ranks against the optimizers themselves on whole batches."""

from __future__ import annotations

import functools
from itertools import product
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np
import pytest
import tensorflow
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessGroup, run_ranks
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sok.communication import communicating_through
from tests.quick_cases import slow_but
from tests.release_features import HAS_BUILT_OPTIMIZERS, keras_optimizers
from tests.sok.wrapped_optimizers import (
    BATCH,
    ROWS,
    WIDTH,
    WRAPPED,
    train_ranks_part,
    train_stock,
)

CUTS = {1: [0, BATCH], 2: [0, 2, BATCH], 3: [0, 0, 4, BATCH]}  # of three ranks one has no bags
STEPS = 30
SOME = ("train.adam", "train.ftrl", "train.adagrad", "legacy.momentum", "keras.adam")


@functools.lru_cache(maxsize=None)
def stock(names: Tuple[str, ...], steps: int) -> Dict[str, np.ndarray]:
    return train_stock(steps, names)


def joined(
    num_ranks: int, steps: int, names: Sequence[str] = tuple(WRAPPED)
) -> Dict[str, np.ndarray]:
    parts = run_ranks(
        num_ranks,
        lambda transport: train_ranks_part(transport, CUTS[num_ranks], steps, names),
        timeout_seconds=100,
    )
    tables = {name: np.full([ROWS, WIDTH], np.nan, np.float32) for name in names}
    for part in parts:
        for name, rows in part.items():
            for key, row in rows.items():
                tables[name][key] = row
    return tables


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", sorted(CUTS))
def test_every_optimizer_trains_as_on_the_whole_batch(num_ranks: int) -> None:
    ours = joined(num_ranks, STEPS)
    for name, theirs in stock(tuple(WRAPPED), STEPS).items():
        np.testing.assert_allclose(ours[name], theirs, rtol=1e-4, atol=1e-5, err_msg=name)


def test_optimizers_of_each_kind_train_as_on_the_whole_batch() -> None:
    ours = joined(3, 40, SOME)
    for name, theirs in stock(SOME, 40).items():
        np.testing.assert_allclose(ours[name], theirs, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_two_runs_are_equal_to_the_bit() -> None:
    first, second = joined(2, 20, SOME), joined(2, 20, SOME)
    for name, table in first.items():
        np.testing.assert_array_equal(table, second[name], err_msg=name)


KERAS = tensorflow.keras.optimizers
EAGER: Dict[str, Callable[[], Any]] = {
    "train": lambda: tf.train.AdamOptimizer(0.1),
    "legacy": lambda: keras_optimizers().Adam(0.1),
    "keras": lambda: KERAS.Adam(0.1),
    "keras.nadam": lambda: KERAS.Nadam(0.1),
}


@pytest.mark.parametrize(
    "family, in_function",
    slow_but(
        product(sorted(EAGER), [False, True]),
        *(("train", True), ("legacy", False), ("keras", True), ("keras.nadam", False)),
    ),
)
def test_one_optimizer_trains_a_table_and_another_variable_alike(
    family: str, in_function: bool
) -> None:
    """Iterations and powers of betas are counted for each of the two."""
    if in_function and family == "keras.nadam":
        pytest.skip("Keras' Nadam counts its steps in Python")

    def train(transport: Transport) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        with context.eager_mode(), communicating_through(transport):
            optimizer = EAGER[family]()
            wrapped = sok.OptimizerWrapper(optimizer)
            table = sok.Variable(np.ones([5, 2], np.float32), name="table")
            plain = tf.Variable(np.ones([5, 2], np.float32), use_resource=True)
            ids = tf.ragged.constant([[0, 3], [4]], dtype=tf.int64)

            def step() -> None:
                with tf.GradientTape() as tape:
                    pooled: Any = sok.lookup_sparse(table, ids, combiners="sum")
                    loss = tf.reduce_sum(pooled * [[1.0, 2.0], [-1.0, 3.0]])
                    stock = tf.nn.embedding_lookup_sparse(
                        plain, ids.to_sparse(), None, combiner="sum"
                    )
                    loss += tf.reduce_sum(stock * [[1.0, 2.0], [-1.0, 3.0]]) * transport.size
                gradients = tape.gradient(loss, [table, plain])
                wrapped.apply_gradients([(gradients[0], table)])
                optimizer.apply_gradients([(gradients[1], plain)])

            run = tf.function(step, autograph=False) if in_function else step
            for _ in range(4):
                run()
            keys, rows = sok.export(table)
            return keys.numpy(), rows.numpy(), plain.numpy()

    for keys, rows, plain in run_ranks(2, train):
        np.testing.assert_allclose(rows, plain[keys], rtol=1e-5)


@pytest.mark.parametrize(
    "family, rows, in_function",
    slow_but(
        product(["train", "legacy", "keras"], [[0, 2, 4], [3, 1], [2, 2, 2], []], [False, True]),
        *(("train", [2, 2, 2], True), ("train", [], True), ("legacy", [0, 2, 4], False)),
        *(("legacy", [2, 2, 2], True), ("keras", [3, 1], False), ("keras", [], True)),
    ),
)
def test_repeated_rows_are_summed_and_others_taken_as_they_are(
    family: str, rows: List[int], in_function: bool
) -> None:
    with context.eager_mode(), communicating_through(OneRank()):
        table = sok.Variable(np.ones([5, 2], np.float32), name="table")
        plain = tf.Variable(np.ones([5, 2], np.float32), use_resource=True)
        values = np.arange(1, 2 * len(rows) + 1, dtype=np.float32).reshape(-1, 2)
        indices, shape = tf.constant(rows, tf.int64), tf.constant([5, 2], tf.int64)
        slices = tf.IndexedSlices(tf.constant(values), indices, shape)
        wrapped, stock = sok.OptimizerWrapper(EAGER[family]()), EAGER[family]()

        def step() -> None:
            wrapped.apply_gradients([(slices, table)])
            stock.apply_gradients([(slices, plain)])

        run = tf.function(step, autograph=False) if in_function else step
        for _ in range(3):
            run()
        np.testing.assert_array_equal(table.numpy(), plain.numpy())


@pytest.mark.parametrize("make", [tf.train.AdagradOptimizer, keras_optimizers().Adagrad])
def test_graphs_do_not_sum_rows_that_ranks_have_summed(make: Callable[[float], Any]) -> None:
    with communicating_through(InProcessGroup(2).transport(0)), tf.Graph().as_default() as graph:
        tables = [sok.Variable(shape=[8, 4], initializer="ones") for _ in range(2)]
        bags = tf.sparse_placeholder(tf.int64, [None, 2])
        pooled = sok.lookup_sparse(tables, [bags] * 2)
        found = tf.gradients(tf.reduce_sum(pooled[0] * pooled[1]), tables)
        repeated = tf.IndexedSlices(
            tf.concat([found[1].values] * 2, 0), tf.concat([found[1].indices] * 2, 0)
        )
        make(0.1).apply_gradients([(found[0], tables[0])])
        assert "Unique" not in [one.type for one in graph.get_operations()]
        make(0.1).apply_gradients([(repeated, tables[1])])
        kinds = [one.type for one in graph.get_operations()]
    assert kinds.count("Unique") == 1


@pytest.mark.parametrize(
    "make, slots",
    [
        (
            lambda: tf.train.AdagradOptimizer(0.1, initial_accumulator_value=0.5),
            {"accumulator": 0.5},
        ),
        (lambda: keras_optimizers().Adam(0.1), {"m": 0, "v": 0}),
        (lambda: KERAS.Adam(0.1), {"m": 0, "v": 0}),
    ],
)
def test_slots_are_tables(make: Callable[[], Any], slots: Dict[str, float]) -> None:
    def check(transport: Transport) -> None:
        with context.eager_mode(), communicating_through(transport):
            table = sok.Variable(np.ones([5, 2], np.float32), name="table")
            wrapped = sok.OptimizerWrapper(make())
            assert wrapped.get_slot(table, "m") is None
            wrapped._create_slots([table])
            assert sorted(wrapped.get_slot_names()) == sorted(slots)
            assert sorted(wrapped._slots[table._unique_id]) == sorted(slots)
            for name, start in slots.items():
                slot = wrapped.get_slot(table, name)
                keys, rows = sok.export(slot)
                assert list(keys.numpy()) == list(range(transport.rank, 5, 2))
                np.testing.assert_array_equal(rows, np.full([len(keys), 2], start))
                sok.assign(slot, range(5), [[key, 7.0] for key in range(5)], check_ownership=False)
                np.testing.assert_array_equal(slot.numpy(), [[key, 7.0] for key in keys.numpy()])

    run_ranks(2, check)


def rate_of(optimizer: Any) -> float:
    return float(tf.convert_to_tensor(optimizer.lr).numpy())


def test_the_learning_rate_can_be_read_and_set() -> None:
    with context.eager_mode(), communicating_through(OneRank()):
        table = sok.Variable([[1.0]])
        for make in (tf.train.GradientDescentOptimizer, keras_optimizers().SGD, KERAS.SGD, sok.SGD):
            optimizer = make(0.5) if make is sok.SGD else sok.OptimizerWrapper(make(0.5))
            optimizer.apply_gradients([(tf.constant([[2.0]]), table)])
            assert rate_of(optimizer) == 0.5
            optimizer.lr = 0.25
            assert rate_of(optimizer) == 0.25
            optimizer.apply_gradients([(tf.constant([[2.0]]), table)])
        np.testing.assert_array_equal(table.numpy(), [[1.0 - 4 * 1.5]])


def test_global_step_counts_once_and_no_gradient_is_no_update() -> None:
    for make in (tf.train.AdamOptimizer, keras_optimizers().Adam, KERAS.Adam):
        with communicating_through(OneRank()), tf.Graph().as_default(), tf.Session() as session:
            table = sok.Variable([[1.0]])
            step = tf.train.get_or_create_global_step()
            wrapped = sok.OptimizerWrapper(make(0.1))
            assert wrapped.apply_gradients([(None, table)], step) is None
            train = wrapped.apply_gradients([(tf.constant([[2.0]]), table)], global_step=step)
            session.run(tf.global_variables_initializer())
            session.run(train)
            session.run(train)
            assert session.run(step) == 2
            assert session.run(table)[0, 0] < 1


def test_sgd_subtracts_from_any_variable() -> None:
    for use_resource in (True, False):
        with communicating_through(OneRank()), tf.Graph().as_default(), tf.Session() as session:
            whole = tf.Variable([[1.0], [1.0]], use_resource=use_resource)
            rows = tf.Variable([[1.0], [1.0], [1.0]], use_resource=use_resource)
            slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([2, 2]))
            train = sok.SGD(lr=0.5).apply_gradients(
                [(tf.constant([[1.0], [2.0]]), whole), (slices, rows)]
            )
            session.run(tf.global_variables_initializer())
            session.run(train)
            np.testing.assert_array_equal(session.run(whole), [[0.5], [0.0]])
            np.testing.assert_array_equal(session.run(rows), [[1.0], [1.0], [-0.5]])


def test_optimizers_that_need_other_ranks_rows_are_refused() -> None:
    def refused(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default():
            table = sok.Variable([[1.0], [1.0]], name="users")
            gradient = tf.constant([[1.0]])
            cases = [(keras_optimizers().SGD(0.1, clipnorm=1.0), "has clipnorm")]
            if HAS_BUILT_OPTIMIZERS:
                cases += [
                    (KERAS.Adafactor(0.1), "means over its rows.*'users:0'"),
                    (KERAS.SGD(0.1, global_clipnorm=1.0), "has global_clipnorm"),
                ]
            for optimizer, message in cases:
                with pytest.raises(ValueError, match=message):
                    sok.OptimizerWrapper(optimizer).apply_gradients([(gradient, table)])

    run_ranks(2, refused)
    with pytest.raises(TypeError, match=r"need one of tf\.train or tf\.keras.optimizers"):
        sok.OptimizerWrapper("adam")
