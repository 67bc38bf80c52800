"""Optimizers on dynamic tables: DeepRec's numbers, and TensorFlow's where all rows are touched."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List

import numpy as np
import pytest
import tensorflow as stock
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.compat.eager import executing_eagerly
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.variable import DynamicTableVariable, PartOf
from graph_opt.embedding_variable.variable import EmbeddingVariable, PartitionedEmbeddingVariable
from graph_opt.ops.dynamic_table import BY_KEY_1000
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.ops.row_updates import update_rows
from graph_opt.session.graph_records import report_of
from graph_opt.session.session import Session
from graph_opt.sharding.initializers import Constant
from graph_opt.sok.optimizer import OptimizerWrapper
from graph_opt.sok.optimizers.row_adam import Adam as RowAdam
from graph_opt.sok.tf.keras.optimizers.lazy_adam import LazyAdamOptimizer
from tests.example_share import example_share
from tests.optimizers.dynamic_formulas import DIM, DYNAMIC_CASES, INITIAL, KeyedFormula
from tests.plain_sessions import plain_session
from tests.quick_cases import one_of_each, slow_but
from tests.release_features import keras_optimizers
from tests.session.deferred_sessions import fused_config

OPTIONS = DynamicTableOptions(Constant(INITIAL))
# TensorFlow 1 has no such argument.
BETA = {"beta": 0.5} if "beta" in inspect.signature(tf.train.FtrlOptimizer).parameters else {}
KEYS = [7, -3, 2**40, 7, 0]


def gradients_of(keys: List[int]) -> np.ndarray:
    return np.random.RandomState(len(keys)).normal(size=[len(keys), DIM])


@pytest.mark.parametrize("case", DYNAMIC_CASES)
def test_rows_get_the_numbers_of_the_formula(case: str) -> None:
    step = tf.train.get_or_create_global_step()
    table = EmbeddingVariable(name="table", dim=DIM, options=OPTIONS)
    keys = tf.placeholder(tf.int64, [None])
    gradients = tf.placeholder(tf.float32, [None, DIM])
    rows = tf.nn.embedding_lookup(table, keys)
    optimizer = DYNAMIC_CASES[case].make(step)
    train = optimizer.apply_gradients([(tf.IndexedSlices(gradients, keys), table)], step)
    version = table.version(keys)
    with plain_session() as session:

        @example_share(0.06)
        @given(st.lists(st.lists(st.sampled_from(KEYS), max_size=4), min_size=1, max_size=6))
        def check(batches: List[List[int]]) -> None:
            session.run(tf.global_variables_initializer())
            formula = KeyedFormula(case)
            for number, batch in enumerate(batches):
                values = gradients_of(batch)
                fed = {keys: batch, gradients: values}
                session.run(rows, fed)
                session.run(train, fed)
                formula.apply(batch, values)
                assert set(session.run(version, fed)) <= {number}
            got = session.run(rows, {keys: formula.keys})
            np.testing.assert_allclose(got, formula.rows(), rtol=2e-5, atol=2e-6)

        check()


@pytest.mark.parametrize("case", ["adam_async", "adagrad_decay", "ftrl"])
def test_tables_in_parts_are_trained_by_one_op_with_others(case: str) -> None:
    found = []
    for make in (tf.Session, lambda: Session(config=fused_config())):
        with tf.Graph().as_default() as graph:
            step = tf.train.get_or_create_global_step()
            parts = [
                EmbeddingVariable(
                    name="table/part_{}".format(number),
                    dim=DIM,
                    options=OPTIONS,
                    part=PartOf("table", number, 2, BY_KEY_1000),
                )
                for number in range(2)
            ]
            tables: List[Any] = [PartitionedEmbeddingVariable(parts)]
            tables += [EmbeddingVariable(name=name, dim=DIM, options=OPTIONS) for name in "ab"]
            ids = tf.placeholder(tf.int64, [None])
            rows = tf.add_n([tf.nn.embedding_lookup(table, ids) for table in tables])
            loss = tf.reduce_sum(rows**3)
            train = DYNAMIC_CASES[case].make(step).minimize(loss, step)
            exported = [one.export() for one in (*parts, *tables[1:])]
            with make() as session:
                session.run(tf.global_variables_initializer())
                for batch in ([1, 2001, 2], [4, 2, 2], [1, 1, -7]):
                    session.run([loss, train], {ids: batch})
                found.append([sorted_rows(*session.run(one)[:2]) for one in exported])
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    report = report_of(graph)
    assert report is not None
    assert [lookup.update for lookup in report.fused_lookups] == ["fused"] * 3, str(report)
    fused = [each for each in graph.get_operations() if each.type == "ResourceGroupEmbeddingApply"]
    assert sum(each.get_attr("num_shards") for each in fused) == len(exported)
    assert len(fused) <= 2  # one is of tables in parts


def sorted_rows(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    return values[np.argsort(keys)]


TRAIN: Dict[str, Callable[[], Any]] = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "lazy_adam": lambda: LazyAdamOptimizer(0.1),
    "rms_prop": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "centered_rms_prop": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(1.0),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, -0.4, 0.2, 0.1, 0.1, **BETA),
    "shrinking_ftrl": lambda: tf.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.1),
    "proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1, 0.1, 0.1, 0.1),
    "proximal_descent": lambda: tf.train.ProximalGradientDescentOptimizer(0.1, 0.1, 0.1),
}
LEGACY: Dict[str, Callable[[], Any]] = {
    "legacy_descent": lambda: keras_optimizers().SGD(0.1),
    "legacy_momentum": lambda: keras_optimizers().SGD(0.1, 0.9),
    "legacy_nesterov": lambda: keras_optimizers().SGD(0.1, 0.9, nesterov=True),
    "legacy_adagrad": lambda: keras_optimizers().Adagrad(0.1),
    "legacy_adam": lambda: keras_optimizers().Adam(0.1),
    "legacy_amsgrad": lambda: keras_optimizers().Adam(0.1, amsgrad=True),
    "legacy_adamax": lambda: keras_optimizers().Adamax(0.1),
    "legacy_rms_prop": lambda: keras_optimizers().RMSprop(0.1),
    "legacy_rms_prop_centered": lambda: keras_optimizers().RMSprop(0.1, centered=True),
    "legacy_rms_prop_momentum": lambda: keras_optimizers().RMSprop(
        0.1, momentum=0.5, centered=True
    ),
    "legacy_adadelta": lambda: keras_optimizers().Adadelta(1.0),
    "legacy_ftrl": lambda: keras_optimizers().Ftrl(
        0.1, -0.4, 0.2, 0.1, 0.1, l2_shrinkage_regularization_strength=0.1, **BETA
    ),
}
KERAS: Dict[str, Callable[[], Any]] = {
    "keras_momentum": lambda: stock.keras.optimizers.SGD(0.1, 0.9),
    "keras_nesterov": lambda: stock.keras.optimizers.SGD(0.1, 0.9, nesterov=True),
    "keras_adagrad": lambda: stock.keras.optimizers.Adagrad(0.1),
    "keras_adam": lambda: stock.keras.optimizers.Adam(0.1),
    "keras_amsgrad": lambda: stock.keras.optimizers.Adam(0.1, amsgrad=True),
    "keras_adam_w": lambda: stock.keras.optimizers.AdamW(0.1, weight_decay=0.3),
    "keras_adamax": lambda: stock.keras.optimizers.Adamax(0.1),
    "keras_rms_prop": lambda: stock.keras.optimizers.RMSprop(0.1),
    "keras_rms_prop_momentum": lambda: stock.keras.optimizers.RMSprop(
        0.1, momentum=0.5, centered=True
    ),
    "keras_adadelta": lambda: stock.keras.optimizers.Adadelta(1.0),
    "keras_ftrl": lambda: stock.keras.optimizers.Ftrl(0.1, -0.4, 0.2, 0.1, 0.1),
}
# Keras' SGD and Adagrad of sparse gradients do not what they do of dense ones; all rows have one.
DENSE = ("keras_nesterov", "keras_adagrad", "keras_adadelta", "keras_ftrl")
IN_GRAPHS = {**TRAIN, **LEGACY}


def static_table(num_rows: int) -> Any:
    start = np.full([num_rows, DIM], INITIAL, np.float32)
    return tf.Variable(start, use_resource=True, name="static")


def rows_of_static(keys: List[int]) -> List[int]:
    return [sorted(set(KEYS)).index(key) for key in keys]


@pytest.mark.parametrize("name", slow_but(IN_GRAPHS, *list(IN_GRAPHS)[::2]))
def test_graphs_train_as_tables_of_equal_rows(name: str) -> None:
    unique = sorted(set(KEYS))
    dynamic = DynamicTableVariable("dynamic", DIM, OPTIONS)
    static = static_table(len(unique))
    found = []
    for table, ids in ((dynamic, KEYS), (static, rows_of_static(KEYS))):
        rows = tf.nn.embedding_lookup(table, tf.constant(ids, tf.int64))
        loss = tf.reduce_sum(rows * tf.constant(gradients_of(ids), tf.float32) + rows**3)
        train = IN_GRAPHS[name]().apply_gradients(zip(tf.gradients(loss, [table]), [table]))
        wanted = tf.constant(unique if table is dynamic else rows_of_static(unique), tf.int64)
        found.append((train, tf.nn.embedding_lookup(table, wanted)))
    with plain_session() as session:
        session.run(tf.global_variables_initializer())
        session.run(found[0][1])
        for _ in range(3):
            session.run([found[0][0], found[1][0]])
        got, expected = session.run([found[0][1], found[1][1]])
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def trained_eagerly(optimizer: Any, table: Any, ids: List[int], is_dense: bool) -> None:
    for step in range(3):
        values = tf.constant(gradients_of(ids) + step, tf.float32)
        gradient: Any = tf.IndexedSlices(values, tf.constant(ids, tf.int64), [4, DIM])
        if is_dense:
            gradient = tf.convert_to_tensor(gradient)
        optimizer.apply_gradients([(gradient, table)])


@pytest.mark.parametrize("name, wraps", one_of_each([*IN_GRAPHS, *KERAS], [False, True]))
def test_eager_steps_train_as_tables_of_equal_rows(name: str, wraps: bool) -> None:
    make = {**IN_GRAPHS, **KERAS}[name]
    unique = sorted(set(KEYS))
    with executing_eagerly():
        dynamic = DynamicTableVariable("dynamic", DIM, OPTIONS)
        static = static_table(len(unique))
        tf.nn.embedding_lookup(dynamic, tf.constant(unique, tf.int64))
        optimizer = OptimizerWrapper(make()) if wraps else make()
        trained_eagerly(optimizer, dynamic, KEYS, False)
        trained_eagerly(make(), static, rows_of_static(KEYS), name in DENSE)
        got = tf.nn.embedding_lookup(dynamic, tf.constant(unique, tf.int64)).numpy()
        np.testing.assert_allclose(got, static.numpy(), rtol=2e-5, atol=2e-6)


def test_rows_move_as_those_of_a_static_table_whatever_the_optimizer() -> None:
    unique = sorted(set(KEYS))
    keys = tf.placeholder(tf.int64, [None])
    rows = tf.placeholder(tf.int64, [None])
    gradients = tf.placeholder(tf.float32, [None, DIM])
    steps, states = [], []
    for name, spec in optimizer_specs().items():
        dynamic = DynamicTableVariable(name, DIM, OPTIONS)
        static = static_table(len(unique))
        slots = [dynamic.add_slot(slot, initial) for slot, initial in spec.slots.items()]
        static_slots = [
            tf.Variable(tf.fill([len(unique), DIM], initial), use_resource=True)
            for initial in spec.slots.values()
        ]
        values = list(spec.hyperparameters.values())
        handles = [slot.handle for slot in static_slots]
        steps.append(dynamic.update_rows(name, slots, values, keys, gradients))
        steps.append(update_rows(name, static.handle, handles, values, rows, gradients, name))
        in_order = tf.argsort(dynamic.export().keys)
        for of_dynamic, of_static in zip((dynamic, *slots), (static, *static_slots)):
            states.append((tf.gather(of_dynamic.export().values, in_order), of_static))
        steps.append(tf.nn.embedding_lookup(dynamic, tf.constant(unique, tf.int64)))
    start, step = tf.group(*steps[2::3]), tf.group(*steps[0::3], *steps[1::3])
    with plain_session() as session:

        @example_share(0.05)
        @given(st.lists(st.lists(st.sampled_from(KEYS), max_size=6), min_size=1, max_size=5))
        def check(batches: List[List[int]]) -> None:
            session.run(tf.global_variables_initializer())
            session.run(start)
            for batch in batches:
                fed = {keys: batch, rows: rows_of_static(batch), gradients: gradients_of(batch)}
                session.run(step, fed)
            for got, expected in session.run(states):
                np.testing.assert_array_equal(got, expected)

        check()


def test_each_optimizer_has_slots_of_its_own() -> None:
    table = DynamicTableVariable("table", DIM, OPTIONS)
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, tf.constant([1, 2], tf.int64)))
    for optimizer in (tf.train.AdamOptimizer(0.1), tf.train.AdamOptimizer(0.2)):
        optimizer.minimize(loss)
        assert optimizer.get_slot(table, "v").table is table
    assert list(table.slots) == ["Adam", "Adam_1", "Adam_2", "Adam_3"]


class _OfItsOwn(tf.train.AdagradOptimizer):
    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return tf.no_op()


@pytest.mark.parametrize("make", [lambda: _OfItsOwn(0.1), lambda: keras_optimizers().Nadam(0.1)])
def test_optimizers_of_unknown_formulas_are_refused(make: Callable[[], Any]) -> None:
    table = DynamicTableVariable("table", DIM, OPTIONS)
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, tf.constant([1, 2], tf.int64)))
    optimizer = make()
    with pytest.raises(ValueError, match=type(optimizer).__name__ + " .*'table:0'"):
        optimizer.apply_gradients(zip(tf.gradients(loss, [table]), [table]))


def test_averages_of_weights_are_refused() -> None:
    with executing_eagerly():
        table = DynamicTableVariable("table", DIM, OPTIONS)
        optimizer = stock.keras.optimizers.Adam(0.1, use_ema=True)
        with pytest.raises(ValueError, match=r"use_ema.*'table:0'"):
            trained_eagerly(optimizer, table, [1, 2], False)


def test_versions_of_rows_are_the_iterations_of_keras() -> None:
    makers = (stock.keras.optimizers.Adam, keras_optimizers().Adam, RowAdam)
    for make in makers:
        with executing_eagerly():
            table = DynamicTableVariable("table", DIM, OPTIONS)
            tf.nn.embedding_lookup(table, tf.constant([1, 2], tf.int64))
            trained_eagerly(make(0.1), table, [1, 2], False)
            assert list(table.version(tf.constant([1, 3], tf.int64)).numpy()) == [2, -1]


def test_dense_gradients_are_refused() -> None:
    table = DynamicTableVariable("table", DIM, OPTIONS)
    with pytest.raises(ValueError, match="'table:0' is a tensor"):
        tf.train.AdagradOptimizer(0.1).apply_gradients([(tf.zeros([3, DIM]), table)])
