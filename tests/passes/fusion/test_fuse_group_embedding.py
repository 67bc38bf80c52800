"""Fused lookups train as TensorFlow's do; what cannot be fused is left, with a reason."""

from __future__ import annotations

from itertools import product
from typing import Any, Callable, Dict, List, Set

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.session.live import optimize_graph
from graph_opt.session.session import Session
from tests.optimizer_models import ROW_BY_ROW
from tests.passes import fused_models as models
from tests.quick_cases import slow_but
from tests.release_features import keras_optimizers

Inputs = Dict[str, Any]
STOCK_PARTS = ("Unique", "SparseFillEmptyRows", "ResourceGather", "UnsortedSegmentSum")


def two_safe(resource: bool = False, shards: int = 1, combiner: str = "mean") -> Any:
    """Two safe lookups of unequal width, joined with dense features."""

    def lookups(inputs: Inputs) -> List[Any]:
        one = models.table("one", 4, resource, shards)
        other = models.table("other", 6, resource, shards)
        sparse = [tf.sparse.from_dense(inputs[name]) for name in ("ids", "more")]
        return [
            tf.nn.safe_embedding_lookup_sparse(one, sparse[0], combiner=combiner),
            tf.nn.safe_embedding_lookup_sparse(other, sparse[1], combiner="sum"),
        ]

    return lookups


def every_api(resource: bool = False, strategy: str = "mod", shards: int = 1) -> Any:
    """One lookup of each kind, weighted ones among them."""

    def lookups(inputs: Inputs) -> List[Any]:
        ids = tf.sparse.from_dense(inputs["ids"])
        more = tf.sparse.from_dense(inputs["more"] + 1)
        more = tf.SparseTensor(more.indices, more.values - 1, more.dense_shape)
        tables = [models.table("t{}".format(i), 3 + i, resource, shards) for i in range(6)]
        weights = [models.weights_of(sparse, inputs["weight"]) for sparse in (ids, more)]
        safe = tf.nn.safe_embedding_lookup_sparse
        plain = tf.nn.embedding_lookup_sparse
        how = dict(partition_strategy=strategy)
        return [
            safe(tables[0], ids, combiner="sqrtn", **how),
            safe(tables[1], ids, weights[0], combiner="mean", default_id=2, **how),
            plain(tables[2], more, None, combiner="mean", **how),
            plain(tables[3], more, weights[1], combiner="sum", **how),
            tf.nn.embedding_lookup(tables[4], inputs["one"], **how),
            tf.reduce_sum(tf.nn.embedding_lookup(tables[5], inputs["more"], **how), axis=1),
        ]

    return lookups


def shared(inputs: Inputs) -> List[Any]:
    """Two lookups of one table."""
    table = models.table("shared")
    return [
        tf.nn.safe_embedding_lookup_sparse(table, tf.sparse.from_dense(inputs[name]))
        for name in ("ids", "more")
    ]


def backwards(inputs: Inputs) -> List[Any]:
    """Lookups of SparseTensors in reverse row order; one has weights."""
    ids = tf.sparse.from_dense(inputs["ids"])
    weights = models.weights_of(ids, inputs["weight"])
    ids, weights = (
        tf.SparseTensor(
            tf.reverse(sparse.indices, [0]), tf.reverse(sparse.values, [0]), sparse.dense_shape
        )
        for sparse in (ids, weights)
    )
    tables = [models.table("t{}".format(i), 3 + i) for i in range(2)]
    safe = tf.nn.safe_embedding_lookup_sparse
    return [safe(tables[0], ids), safe(tables[1], ids, weights)]


def feature_columns(inputs: Inputs) -> List[Any]:
    """Embedding columns, one of them shared, as `input_layer` joins them."""
    column = tf.feature_column
    names = ("ids", "more", "one")
    categories = [
        column.categorical_column_with_identity(name, models.VOCABULARY, default_value=0)
        for name in names
    ]
    alone = column.embedding_column(categories[2], 3, combiner="sum")
    both = column.shared_embedding_columns(categories[:2], 5)
    return [column.input_layer(inputs, [alone, *both])]


def assert_equal(fused: models.Trained, stock: models.Trained, tolerance: float = 1e-5) -> None:
    losses, values = models.difference(fused, stock)
    assert losses < tolerance and values < tolerance


def ops_run(trained: models.Trained) -> Set[str]:
    """Types of the ops of one training step."""
    with tf.Session(graph=trained.graph) as session:
        session.run([op for op in trained.graph.get_operations() if op.name == "init"])
        step = [op for op in trained.graph.get_operations() if op.type == "NoOp"]
        train_op = next(op for op in reversed(step) if op.name in models.OPTIMIZER_NAMES)
        return set(models.ran(trained.graph, [train_op], session))


# tests/rules/optimizers/test_sparse_update.py trains with each of them.
@pytest.mark.parametrize(
    "resource, optimizer",
    slow_but(product([False, True], ROW_BY_ROW), (False, "adagrad"), (False, "ftrl_shrinkage")),
)
def test_training_is_the_same_with_every_optimizer(optimizer: str, resource: bool) -> None:
    lookups = two_safe(resource, shards=2)
    fused = models.train(lookups, optimizer, models.config())
    assert_equal(fused, models.train(lookups, optimizer))
    assert [lookup.update for lookup in fused.report.fused] == ["fused", "fused"]


@pytest.mark.parametrize(
    "resource, strategy, shards",
    slow_but(
        [
            (False, "mod", 1),
            (True, "mod", 3),
            (False, "div", 3),
            (True, "mod", 1),
            (False, "mod", 3),
            (True, "div", 3),
        ],
        (True, "div", 3),
    ),
)
def test_training_is_the_same_with_every_api(resource: bool, strategy: str, shards: int) -> None:
    lookups = every_api(resource, strategy, shards)
    fused = models.train(lookups, options=models.config())
    assert_equal(fused, models.train(lookups))
    assert len(fused.report.fused) == 6
    assert [lookup.update for lookup in fused.report.fused_lookups] == ["fused"] * 6


@pytest.mark.parametrize(
    "lookups", slow_but([shared, backwards, feature_columns], shared, feature_columns)
)
def test_models_of_all_kinds_train_the_same(lookups: Callable[[Inputs], List[Any]]) -> None:
    fused = models.train(lookups, options=models.config())
    assert_equal(fused, models.train(lookups))
    assert all(lookup.update == "fused" for lookup in fused.report.fused_lookups)


@pytest.mark.parametrize("resource", [False, True])
def test_a_step_runs_one_op_for_lookups_and_one_for_updates(resource: bool) -> None:
    fused = models.train(two_safe(resource), options=models.config())
    ran = ops_run(fused)
    kind = "Resource" if resource else ""
    assert {kind + "GroupEmbeddingLookup", kind + "GroupEmbeddingApply"} <= ran
    assert not ran.intersection(STOCK_PARTS)


def test_adam_keeps_its_update_of_whole_tables_where_asked() -> None:
    stock = models.train(two_safe(), "adam")
    fused = models.train(two_safe(), "adam", models.config(adam="stock"))
    assert_equal(fused, stock)
    assert [lookup.gradient for lookup in fused.report.fused] == ["fused", "fused"]
    codes = [lookup.refusals[0]["code"] for lookup in fused.report.fused]
    assert codes == ["adam_updates_whole_table"] * 2


@pytest.mark.parametrize("resource", slow_but([False, True], True))
def test_lazy_adam_moves_only_the_rows_that_were_looked_up(resource: bool) -> None:
    fused = models.train(two_safe(resource), "adam", models.config(lazy_adam=True), steps=1)
    stock = models.train(two_safe(resource), "adam", steps=1)
    # The first step is TensorFlow's: all moments are zero before it.
    assert_equal(fused, stock)
    lazy = models.train(two_safe(resource), "adam", models.config(lazy_adam=True))
    assert [lookup.update for lookup in lazy.report.fused] == ["fused", "fused"]
    assert models.difference(lazy, models.train(two_safe(resource), "adam"))[0] < 0.05


def test_no_update_is_fused_when_the_options_say_so() -> None:
    fused = models.train(two_safe(), options=models.config(fuse_update=False))
    assert_equal(fused, models.train(two_safe()))
    assert [lookup.update for lookup in fused.report.fused] == ["stock", "stock"]


def test_only_chosen_lookups_are_fused() -> None:
    fused = models.train(two_safe(), options=models.config(lookups=["^one$"]))
    assert_equal(fused, models.train(two_safe()))
    outcomes = [(bool(lookup.group), lookup.tables) for lookup in fused.report.fused_lookups]
    assert outcomes == [(True, ("one",)), (False, ("other",))]
    assert fused.report.fused_lookups[1].refusals[0]["code"] == "lookup_not_chosen"


def test_a_group_that_is_too_small_is_not_fused() -> None:
    fused = models.train(two_safe(), options=models.config(minimum_lookups=3))
    assert {lookup.refusals[0]["code"] for lookup in fused.report.fused_lookups} == {
        "group_too_small"
    }


def test_train_ops_that_run_separately_stay_separate() -> None:
    """Two train ops with separate tables: a step of one must not update the other's."""
    with tf.Graph().as_default() as graph:
        inputs = models.batches()
        steps = []
        for name in ("ids", "more"):
            table = models.table(name + "_table")
            pooled = tf.nn.safe_embedding_lookup_sparse(table, tf.sparse.from_dense(inputs[name]))
            loss = tf.reduce_mean(tf.square(pooled))
            steps.append(tf.train.AdagradOptimizer(0.1).minimize(loss))
        variables = tf.trainable_variables()
        initialize = tf.global_variables_initializer()
        report = optimize_graph(graph, models.config())
        with tf.Session() as session:
            session.run(initialize)
            before = session.run(variables)
            session.run(steps[0])
            after = session.run(variables)
    assert [lookup.update for lookup in report.fused] == ["fused", "fused"]
    assert not np.array_equal(before[0], after[0])
    assert np.array_equal(before[1], after[1])


def test_an_update_waits_for_what_the_stock_update_waits_for() -> None:
    with tf.Graph().as_default() as graph:
        inputs = models.batches()
        counter = tf.get_variable("counter", [], initializer=tf.zeros_initializer())
        pooled = two_safe()(inputs)
        loss = models.loss_of(pooled, inputs)
        optimizer = tf.train.AdagradOptimizer(0.1)
        gradients = optimizer.compute_gradients(loss)
        with tf.control_dependencies([tf.assign_add(counter, 1.0)]):
            step = optimizer.apply_gradients(gradients)
        initialize = tf.global_variables_initializer()
        optimize_graph(graph, models.config())
        with tf.Session() as session:
            session.run(initialize)
            session.run(step)
            session.run(step)
            assert session.run(counter) == 2


def test_hyperparameters_that_are_computed_for_each_table_come_once() -> None:
    inputs = models.batches()
    tables = [models.table(name, 4, True) for name in ("users", "items")]
    loss = models.loss_of([tf.nn.embedding_lookup(one, inputs["one"]) for one in tables], inputs)
    optimizer = keras_optimizers().Ftrl(0.1)  # it adjusts l2 anew for each
    optimizer.apply_gradients(zip(tf.gradients(loss, tables), tables))
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    view = GraphView(optimize_graph_def(graph_def, models.config()).graph_def)
    (update,) = view.of_op("ResourceGroupEmbeddingApply")
    assert int(view.nodes[update].attr["num_hyperparameters"].i) == 5


def test_a_fetch_by_the_original_name_gives_the_value_that_main_uses() -> None:
    with tf.Graph().as_default() as graph:
        inputs = models.batches()
        pooled = two_safe()(inputs)
        loss = models.loss_of(pooled, inputs)
        tf.train.AdagradOptimizer(0.1).minimize(loss)
        initialize = tf.global_variables_initializer()
        stock = tf.Session(graph=graph)
        stock.run(initialize)
        expected = stock.run(pooled)
        tables = stock.run(tf.trainable_variables())
    with tf.Graph().as_default() as graph:
        inputs = models.batches()
        pooled = two_safe()(inputs)
        loss = models.loss_of(pooled, inputs)
        step = tf.train.AdagradOptimizer(0.1).minimize(loss)
        initialize = tf.global_variables_initializer()
        variables = tf.trainable_variables()
        with Session(graph=graph, config=models.config()) as session:
            session.run(initialize)
            for variable, value in zip(variables, tables):
                variable.load(value, session)
            fetched = session.run([*pooled, step])[:2]
    for one, other in zip(fetched, expected):
        np.testing.assert_array_equal(one, other)


def test_the_live_graph_becomes_what_the_graph_def_becomes() -> None:
    with tf.Graph().as_default() as graph:
        inputs = models.batches()
        loss = models.loss_of(two_safe(True)(inputs), inputs)
        tf.train.AdagradOptimizer(0.1).minimize(loss)
        config = models.config(prefetch=True)
        asynchronous = config.graph_options.optimizer_options.async_embedding_options
        asynchronous.staleness_sample_steps = 0  # Only sessions take samples.
        offline = optimize_graph_def(graph.as_graph_def(add_shapes=True), config)
        optimize_graph(graph, config)
        live = {node.name: list(node.input) for node in graph_opt.running_graph_def(graph).node}
    assert live == {node.name: list(node.input) for node in offline.graph_def.node}


def test_fusing_twice_is_refused() -> None:
    with tf.Graph().as_default() as graph:
        inputs = models.batches()
        models.loss_of(two_safe()(inputs), inputs)
        graph_def = graph.as_graph_def(add_shapes=True)
    once = optimize_graph_def(graph_def, models.config())
    with pytest.raises(tf.errors.FailedPreconditionError, match="fused before"):
        optimize_graph_def(once.graph_def, models.config())


@pytest.mark.parametrize("resource", [False, True])
def test_fused_lookups_are_prefetched_as_one_tensor(resource: bool) -> None:
    """With prefetch, a batch reads tables that miss at most two updates; if frozen, none."""
    losses = []
    for config in (None, models.config(prefetch=True)):
        with tf.Graph().as_default() as graph:
            inputs = models.batches()
            pooled = two_safe(resource)(inputs)
            loss = models.loss_of(pooled, inputs)
            initialize = tf.global_variables_initializer()
            report = None if config is None else optimize_graph(graph, config)
            with Session(graph=graph, config=config) as session:
                session.run(initialize)
                losses.append([session.run(loss) for _ in range(models.STEPS)])
    np.testing.assert_array_equal(losses[0], losses[1])
    assert report is not None and len(report.moved) == len(report.lookups) == 1
    floats = [tensor for tensor in report.stages[0].boundary if tensor.shape == (None, 10)]
    assert len(floats) == 1


@pytest.mark.parametrize("of", ["pooled rows", "weights"])
def test_a_gradient_that_only_some_steps_fetch_is_that_of_their_batch(of: str) -> None:
    inputs = models.batches()
    ids = tf.sparse.from_dense(inputs["more"])
    weights = models.weights_of(ids, inputs["weight"])
    table = models.table("users", 4)
    pooled = tf.nn.embedding_lookup_sparse(table, ids, weights, combiner="sum")
    loss = tf.reduce_sum(tf.square(pooled))
    step = tf.train.GradientDescentOptimizer(0.0).minimize(loss)
    of_rows, of_weights = tf.gradients(loss, [pooled, weights.values])
    gradient = of_rows if of == "pooled rows" else of_weights
    with Session(config=models.config(prefetch=True)) as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        rows, fetched, values = session.run([pooled, gradient, weights.values])
    if of == "pooled rows":
        np.testing.assert_allclose(fetched, 2.0 * rows, rtol=1e-6)
    else:  # the sum of squares is of degree 2 in the weights
        np.testing.assert_allclose((fetched * values).sum(), 2.0 * (rows**2).sum(), rtol=1e-5)


def test_a_lookup_that_must_stay_does_not_keep_others_from_running_ahead() -> None:
    inputs = models.batches()
    offset = tf.placeholder(tf.int64, [])
    ids = [inputs["one"], inputs["one"] + 1, inputs["one"] + offset]
    rows = [
        tf.nn.embedding_lookup(models.table("t{}".format(i)), tf.minimum(each, 22))
        for i, each in enumerate(ids)
    ]
    tf.train.AdagradOptimizer(0.1).minimize(models.loss_of(rows, inputs))
    report = optimize_graph(tf.get_default_graph(), models.config(prefetch=True))
    assert len(report.fused) == 3
    refused = {lookup.name: lookup.refusal for lookup in report.lookups}
    codes = [refusal and refusal["code"] for refusal in refused.values()]
    assert codes == [None, "placeholder_upstream"]  # The first op has two lookups.
