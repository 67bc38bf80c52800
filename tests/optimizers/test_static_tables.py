"""DeepRec's optimizers on variables: their numbers are those of the formulas."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.compat.eager import executing_eagerly
from graph_opt.graph.view import GraphView
from graph_opt.optimizers.adagrad_decay import AdagradDecayOptimizer
from graph_opt.optimizers.adam_w import AdamWOptimizer
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.session.graph_records import report_of
from graph_opt.session.session import Session
from tests.example_share import example_share
from tests.optimizers.deeprec_models import CASES, Case
from tests.plain_sessions import plain_session
from tests.quick_cases import one_of_each, slow_but
from tests.session.deferred_sessions import fused_config

ROWS = 6


def weights_of(shape: List[int], dtype: Any) -> np.ndarray:
    return np.random.RandomState(7).normal(size=shape).astype(dtype.as_numpy_dtype)


def gradients_of(rows: List[int], shape: List[int]) -> np.ndarray:
    return np.random.RandomState(len(rows)).normal(size=[len(rows), *shape[1:]])


class Trained:
    """A variable that an optimizer trains by fed gradients: sparse ones, and dense ones."""

    def __init__(self, case: Case, shape: List[int], use_resource: bool, dtype: Any) -> None:
        self.step = tf.train.get_or_create_global_step()
        start = weights_of(shape, dtype)
        self.table = tf.get_variable("table", initializer=start, use_resource=use_resource)
        self.rows = tf.placeholder(tf.int64, [None])
        self.gradients = tf.placeholder(dtype, [None, *shape[1:]])
        slices = tf.IndexedSlices(self.gradients, self.rows)
        optimizer = case.make(self.step)
        self.sparse = optimizer.apply_gradients([(slices, self.table)], self.step)
        self.dense = optimizer.apply_gradients([(self.gradients, self.table)], self.step)
        self.formula = case.formula(start)

    def apply(self, session: Any, rows: List[int]) -> None:
        gradients = gradients_of(rows, self.table.shape.as_list())
        session.run(self.sparse, {self.rows: rows, self.gradients: gradients})
        self.formula.sparse(rows, gradients)

    def apply_dense(self, session: Any) -> None:
        shape = self.table.shape.as_list()
        gradients = gradients_of(list(range(shape[0])), shape)
        session.run(self.dense, {self.gradients: gradients})
        self.formula.dense(gradients)


# The shape of a table, whether it is a resource, and its type.
TABLES = [
    ([ROWS, 5], False, tf.float32),
    ([ROWS, 5], True, tf.float32),
    ([ROWS], False, tf.float32),
    ([ROWS, 2, 3], True, tf.float64),
]


@pytest.mark.parametrize("table, case", one_of_each(TABLES, list(CASES)))
def test_variables_get_the_numbers_of_the_formula(
    table: Tuple[List[int], bool, Any], case: str
) -> None:
    shape, use_resource, dtype = table
    trained = Trained(CASES[case], shape, use_resource, dtype)
    with plain_session() as session:

        @example_share(0.08)
        @given(st.lists(st.lists(st.integers(0, ROWS - 1), max_size=4), min_size=1, max_size=6))
        def check(batches: List[List[int]]) -> None:
            session.run(tf.global_variables_initializer())
            trained.formula = CASES[case].formula(weights_of(shape, dtype))
            for rows in batches:
                trained.apply(session, rows)
            trained.apply_dense(session)
            got = session.run(trained.table)
            np.testing.assert_allclose(got, trained.formula.weights, rtol=2e-5, atol=2e-6)

        check()


@pytest.mark.parametrize("case", CASES)
def test_eager_updates_are_those_of_graphs(case: str) -> None:
    with executing_eagerly():
        step = tf.Variable(0, dtype=tf.int64, use_resource=True)
        start = weights_of([ROWS, 3], tf.float32)
        table = tf.Variable(start, use_resource=True, name="table")
        optimizer = CASES[case].make(step)
        formula = CASES[case].formula(start)
        for rows in ([1, 4, 1], [0], [4, 1, 5]):
            gradients = gradients_of(rows, [ROWS, 3])
            values = tf.constant(gradients, tf.float32)
            optimizer.apply_gradients([(tf.IndexedSlices(values, tf.constant(rows)), table)], step)
            formula.sparse(rows, gradients)
        np.testing.assert_allclose(table.numpy(), formula.weights, rtol=2e-5, atol=2e-6)


def trained_model(make: Any, use_resource: bool) -> List[Any]:
    """Some steps of a model with two tables and a dense layer."""
    step = tf.train.get_or_create_global_step()
    ids = tf.placeholder(tf.int64, [None])
    pooled = []
    for name in ("one", "other"):
        table = tf.get_variable(name, [ROWS, 4], use_resource=use_resource)
        pooled.append(tf.nn.embedding_lookup(table, ids))
    kernel = tf.get_variable("kernel", [4, 1], use_resource=use_resource)
    loss = tf.reduce_sum(tf.square(tf.matmul(tf.add_n(pooled), kernel) - 1))
    train = make(step).minimize(loss, global_step=step)
    return [ids, loss, train]


def test_adam_w_is_deferred_with_the_decay_of_its_rows() -> None:
    for use_resource in (False, True):
        graph = trained_alike(lambda _: AdamWOptimizer(0.25, 0.1), use_resource)
        report = report_of(graph)
        assert report is not None
        assert [lookup.update for lookup in report.fused_lookups] == ["deferred", "deferred"]


@pytest.mark.parametrize("use_resource", slow_but([False, True], True))
@pytest.mark.parametrize("case", CASES)
def test_updates_are_fused_with_lookups(case: str, use_resource: bool) -> None:
    graph = trained_alike(CASES[case].make, use_resource)
    report = report_of(graph)
    assert report is not None
    assert [lookup.update for lookup in report.fused_lookups] == ["fused", "fused"]
    both = [each for each in graph.get_operations() if each.type.endswith("GroupEmbeddingApply")]
    assert [each.get_attr("num_shards") for each in both].count(2) == 1


def trained_alike(make_optimizer: Any, use_resource: bool) -> Any:
    """The graph of a session of ours, whose variables are those of a stock session."""
    found = []
    for make in (tf.Session, lambda: Session(config=fused_config())):
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(3)
            ids, loss, train = trained_model(make_optimizer, use_resource)
            with make() as session:
                session.run(tf.global_variables_initializer())
                for batch in ([1, 2, 2], [5, 1, 0], [3, 3, 3]):
                    session.run([loss, train], {ids: batch})
                found.append(session.run(tf.global_variables()))
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    return graph


def test_powers_of_fused_updates_need_no_ids() -> None:
    found = []
    for make in (lambda: Session(config=fused_config()), tf.Session):
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(3)
            bags = tf.sparse.placeholder(tf.int64, [None, 2])
            pooled = []
            for combiner in ("mean", "sqrtn", "sum"):
                table = tf.get_variable(combiner, [ROWS, 4], use_resource=True)
                safe = tf.nn.safe_embedding_lookup_sparse
                pooled.append(safe([table], bags, combiner=combiner))
            loss = tf.reduce_sum(tf.square(tf.add_n(pooled) - 1))
            train = CASES["adam_async"].make(None).minimize(loss)
            with make() as session:
                session.run(tf.global_variables_initializer())
                for ids in ([[1, -1], [-1, -1], [2, 1]], np.zeros([0, 2]), [[-1, -1]], [[3, 0]]):
                    places = np.reshape(list(np.ndindex(*np.shape(ids))), [-1, 2])
                    batch = (places, np.ravel(ids).astype(np.int64), np.shape(ids))
                    session.run([loss, train], {bags: batch})
                found.append(session.run(tf.global_variables()))
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    fused = optimize_graph_def(graph.as_graph_def(add_shapes=True), fused_config())
    view = GraphView(fused.graph_def)
    run = {view.op(name) for name in view.ancestors([train.name])}
    assert "ResourceGroupEmbeddingApply" in run
    assert run.isdisjoint(["SparseFillEmptyRows", "Unique", "SparseReshape"])


def test_bad_options_are_refused() -> None:
    step = tf.train.get_or_create_global_step()
    for wrong in (
        {"initial_accumulator_value": 0.0},
        {"accumulator_decay_step": 0},
        {"accumulator_decay_rate": 1.0},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            AdagradDecayOptimizer(0.1, step, **wrong)


def test_a_row_that_is_not_in_the_table_is_an_error() -> None:
    trained = Trained(CASES["adam_async"], [ROWS, 2], True, tf.float32)
    with plain_session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="table"):
            trained.apply(session, [ROWS])


@pytest.mark.parametrize("use_resource", [False, True])
def test_adam_w_decays_rows_with_a_gradient_before_adam_moves_them(use_resource: bool) -> None:
    rate, decay = 0.1, 0.25
    start = weights_of([ROWS, 3], tf.float32)
    rows, gradients = [1, 4, 1], gradients_of([1, 4, 1], [ROWS, 3])
    found = []
    for shrunk in (False, True):
        with tf.Graph().as_default(), tf.Session() as session:
            first = np.array(start)
            first[[1, 4]] *= 1 - decay if shrunk else 1
            make = tf.train.AdamOptimizer(rate) if shrunk else AdamWOptimizer(decay, rate)
            table = tf.get_variable("table", initializer=first, use_resource=use_resource)
            bias = tf.get_variable("bias", initializer=first[0], use_resource=use_resource)
            slices = tf.IndexedSlices(tf.constant(gradients, tf.float32), tf.constant(rows))
            pairs = [(slices, table), (tf.ones([3]), bias)]
            named: Any = {} if shrunk else {"decay_var_list": [table]}
            train = make.apply_gradients(pairs, **named)
            session.run(tf.global_variables_initializer())
            session.run(train)
            found.append(session.run([table, bias]))
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
