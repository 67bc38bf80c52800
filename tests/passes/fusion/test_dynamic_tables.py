"""Lookups, gradients and updates of dynamic tables are fused, alone and beside those of others."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.dynamic.options import LFU, LRU, LeastValuable
from graph_opt.graph.view import GraphView
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.session.live import optimize_graph
from graph_opt.session.session import Session
from tests.optimizer_models import STOCK
from tests.passes import fused_models
from tests.passes.fusion import dynamic_models as models
from tests.passes.refused_models import ControlFlowV1
from tests.quick_cases import slow_but
from tests.release_features import reshape_gradient_reads_shape


def optimized(lookups: models.Lookups, clip: bool = False) -> Any:
    inputs = fused_models.batches()
    models.minimize(fused_models.loss_of(lookups(inputs), inputs), clip=clip)
    graph_def = running_graph_def(tf.get_default_graph(), add_shapes=True)
    return optimize_graph_def(graph_def, fused_models.config())


def ops_of(result: Any, prefix: str) -> List[str]:
    """Ops of the new nodes of some kind."""
    view = GraphView(result.graph_def)
    return sorted(op for op in view.ops() for name in view.of_op(op) if name.startswith(prefix))


def test_lookups_and_updates_of_every_api_are_fused_with_those_of_a_static_table() -> None:
    result = optimized(models.every_api)
    lookups = result.report.fused_lookups
    assert [(lookup.gradient, lookup.update) for lookup in lookups] == [("fused", "fused")] * 8
    groups = {lookup.group for lookup in lookups}
    assert len(groups) == 3  # the safe one, those that a ConcatV2 joins, and the others
    assert ops_of(result, "group_embedding/rows").count("GroupDynamicRows") == len(groups)
    assert ops_of(result, "group_embedding/update").count("ResourceGroupEmbeddingApply") == 3


@pytest.mark.parametrize(
    "optimizer",
    slow_but(STOCK, "adam"),
)
def test_training_is_the_same_with_every_optimizer(optimizer: str) -> None:
    # TensorFlow's Adam moves every row of a static table, and a fused one does so, too, later.
    lookups = of_dynamic_tables if optimizer in ("adam", "adam_w") else models.every_api
    fused = models.train(lookups, fused_models.config(), optimizer)
    models.assert_equal(fused, models.train(lookups, None, optimizer))
    assert {lookup.update for lookup in fused.report.fused_lookups} == {"fused"}


def of_dynamic_tables(inputs: models.Inputs) -> List[Any]:
    """The same lookups without that of the static table."""
    return models.every_api(inputs, static=False)


def test_clipped_gradients_are_summed_by_key() -> None:
    fused = models.train(models.every_api, fused_models.config(), clip=True)
    models.assert_equal(fused, models.train(models.every_api, clip=True))
    lookups = fused.report.fused_lookups
    stock = [lookup.tables[0] for lookup in lookups if lookup.gradient != "fused"]
    assert stock == ["users", "items", "places/part_0"]  # their gradients have a row for each id
    # That of a table in parts may need the shape of its rows, so that its lookup stays, too.
    stays = ["places/part_0"] if reshape_gradient_reads_shape() else []
    assert [lookup.tables[0] for lookup in lookups if not lookup.group] == stays
    assert {lookup.update for lookup in lookups} == {"fused"}


def one_epoch(config: Optional[Any]) -> models.Trained:
    """Trains until the input ends."""
    with tf.Graph().as_default() as graph:
        random = np.random.RandomState(3)
        data = {"more": random.randint(1, 50, [64, 3]), "one": random.randint(0, 50, [64])}
        dataset = tf.data.Dataset.from_tensor_slices(data).batch(4)
        inputs = tf.data.make_one_shot_iterator(dataset).get_next()
        users, items = models.table("users"), models.table("items", 3)
        pooled = tf.nn.embedding_lookup_sparse(users, tf.sparse.from_dense(inputs["more"]), None)
        rows = [pooled, tf.nn.embedding_lookup(items, inputs["one"])]
        step = models.minimize(tf.reduce_mean(tf.concat(rows, 1)), "sgd")
        exports = {table.op.name: table.export() for table in (users, items)}
        initialize = tf.global_variables_initializer()
        report = None if config is None else optimize_graph(graph, config)
        with tf.Session() if config is None else Session(config=config) as session:
            session.run(initialize)
            with pytest.raises(tf.errors.OutOfRangeError):
                while True:
                    session.run(step)
            exported = session.run(exports)
    return models.exported([], exported, {}, report)


@pytest.mark.parametrize("fuses", [False, True])
def test_prefetched_batches_are_looked_up_and_trained_once(fuses: bool) -> None:
    # The loss is linear in the rows, so that it does not matter when they were read.
    config = fused_models.config(prefetch=True)
    config.graph_options.optimizer_options.do_group_embedding = fuses
    config.graph_options.optimizer_options.async_embedding_options.capacity = 3
    prefetched = one_epoch(config)
    models.assert_equal(prefetched, one_epoch(None))
    assert all(lookup.outcome == "moved" for lookup in prefetched.report.lookups)


def with_conditions(inputs: models.Inputs) -> List[Any]:
    """Lookups in a tf.cond, shared with others outside, and one that adds no keys."""
    more = tf.sparse.from_dense(inputs["more"])
    users, items = models.table("users"), models.table("items")
    is_even = tf.equal(tf.reduce_sum(inputs["one"]) % 2, 0)
    return [
        tf.nn.embedding_lookup_sparse(users, more, None),
        tf.cond(
            is_even,
            lambda: tf.nn.embedding_lookup(users, inputs["one"] + 50),
            lambda: tf.zeros([fused_models.BATCH, 4]),
        ),
        items.sparse_read(inputs["one"]),
        items.sparse_read(inputs["one"] + 100, insert=False),
        models.table("places").sparse_read(inputs["one"], insert=is_even),
    ]


def test_lookups_in_conditionals_stay_and_those_that_add_no_keys_are_apart() -> None:
    fused = models.train(with_conditions, fused_models.config())
    models.assert_equal(fused, models.train(with_conditions))
    groups = [lookup.group for lookup in fused.report.fused_lookups]
    assert len(set(groups)) == len(groups) - 1, groups
    codes = {refusal["code"] for refusal in fused.report.refusals}
    assert codes <= {"lookup_in_function", "lookup_in_control_flow"} and codes


def of_full_tables(config: Optional[Any], updates_in_cond: bool = False) -> models.Trained:
    """Trains tables that have room for fewer keys than come."""
    with tf.Graph().as_default() as graph, ControlFlowV1():
        keys = np.random.RandomState(0).zipf(1.3, [2000, 3]) % 5000
        dataset = tf.data.Dataset.from_tensor_slices(keys).repeat().batch(32)
        ids = tf.data.make_one_shot_iterator(dataset).get_next()
        users = models.table("users", capacity=300, eviction=LeastValuable(LRU))
        items = models.table("items", 8, capacity=200, eviction=LeastValuable(LFU))
        sparse = tf.sparse.from_dense(ids)
        pooled = [
            tf.nn.embedding_lookup_sparse(users, sparse, None),
            tf.nn.safe_embedding_lookup_sparse(items, sparse),
        ]
        loss = tf.reduce_mean(tf.square(tf.concat(pooled, 1) - 0.3))
        optimizer = tf.train.AdagradOptimizer(0.1)
        pairs = optimizer.compute_gradients(loss)
        if updates_in_cond:
            is_even = tf.equal(tf.reduce_sum(ids) % 2, 0)
            step = tf.cond(is_even, lambda: tf.group(optimizer.apply_gradients(pairs)), tf.no_op)
        else:
            step = optimizer.apply_gradients(pairs)
        exports = {table.op.name: table.export() for table in (users, items)}
        initialize = tf.global_variables_initializer()
        report = None if config is None else optimize_graph(graph, config)
        with tf.Session() if config is None else Session(config=config) as session:
            session.run(initialize)
            losses = [float(session.run([loss, step])[0]) for _ in range(40)]
            return models.exported(losses, session.run(exports), {}, report)


@pytest.mark.parametrize("updates_in_cond", slow_but([False, True], True))
def test_full_tables_lose_the_same_rows(updates_in_cond: bool) -> None:
    fused = of_full_tables(fused_models.config(), updates_in_cond)
    models.assert_equal(fused, of_full_tables(None, updates_in_cond))
    assert {lookup.update for lookup in fused.report.fused_lookups} == {"fused"}
    assert [len(rows) for rows in fused.rows.values()] == [300, 200]


def test_batches_that_wait_keep_their_rows_within_the_capacity() -> None:
    config = fused_models.config(prefetch=True)
    config.graph_options.optimizer_options.async_embedding_options.capacity = 3
    prefetched = of_full_tables(config)
    assert [len(rows) for rows in prefetched.rows.values()] == [300, 200]
    assert prefetched.losses[-1] < prefetched.losses[0]


def safe_with_weights(inputs: models.Inputs) -> List[Any]:
    """Safe lookups whose weights are not all above 0."""
    more = tf.sparse.from_dense(inputs["more"])
    weights = fused_models.weights_of(more, inputs["weight"])
    safe = tf.nn.safe_embedding_lookup_sparse
    return [
        safe(models.table("users"), more, weights, combiner="mean"),
        safe(models.table("items"), more, weights, combiner="sum"),
    ]


def test_ids_that_weights_drop_get_no_rows() -> None:
    fused = models.train(safe_with_weights, fused_models.config(), steps=2)
    models.assert_equal(fused, models.train(safe_with_weights, steps=2))
    assert {lookup.update for lookup in fused.report.fused_lookups} == {"fused"}
    assert len(fused.rows["users"]) < len(fused.rows["items"])


def test_a_gradient_that_only_some_steps_fetch_is_that_of_their_batch() -> None:
    inputs = fused_models.batches()
    more = tf.sparse.from_dense(inputs["more"])
    pooled = tf.nn.embedding_lookup_sparse(models.table("users"), more, None, combiner="sum")
    loss = tf.reduce_sum(tf.square(pooled))
    step = tf.train.GradientDescentOptimizer(0.0).minimize(loss)
    gradient = tf.gradients(loss, pooled)[0]
    with Session(config=fused_models.config(prefetch=True)) as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        rows, fetched = session.run([pooled, gradient])
    np.testing.assert_allclose(fetched, 2.0 * rows, rtol=1e-6)


@pytest.mark.parametrize("config", [None, fused_models.config()], ids=["stock", "fused"])
def test_new_keys_are_trained_by_gradients_that_do_not_depend_on_rows(config: Any) -> None:
    keys = np.arange(5000, dtype=np.int64)
    with tf.Graph().as_default():
        table = models.table("users")
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, tf.constant(keys)))
        step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        values = table.export().values
        initialize = tf.global_variables_initializer()
        with tf.Session() if config is None else Session(config=config) as session:
            session.run(initialize)
            start = session.run(loss)
            for _ in range(20):
                session.run(initialize)
                session.run([loss, step])
                # Each of 4 columns has moved by 0.5.
                expected = start - 2.0 * len(keys)
                np.testing.assert_allclose(session.run(values).sum(), expected, atol=1.0)
