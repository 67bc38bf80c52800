"""Updates are fused, with TensorFlow's numbers, whatever stands between them and the gradients."""

from __future__ import annotations

from typing import Any, Iterator, List, Set

import numpy as np
import pytest

from graph_opt import report
from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.session.live import optimize_graph
from graph_opt.session.session import Session
from tests.dense_optimizers import DENSE
from tests.optimizer_models import KERAS, STOCK
from tests.passes import fused_models as models
from tests.passes.fusion.accumulated_gradients import accumulators
from tests.passes.fusion.changed_gradients import MODELS, loss_of
from tests.quick_cases import slow_but
from tests.release_features import keras_optimizers

STEPS = 6
OPTIMIZERS = (("adagrad", False), ("momentum", True), ("adam", False), ("adam", True))
FUSED = {"fused", "deferred"}
# Lookups of which something is left, with the reason; that the lookup itself is, is no matter here.
LEFT = {"gradient_changed_before_update", "gradient_accumulated", "rows_clipped"}
# Whether a branch has written to a reference variable before it is used, only the step knows.
DENSE_MODEL = "added_in_a_branch"


def train(name: str, optimizer: str, resource: bool, fuse: bool) -> models.Trained:
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        loss, step = MODELS[name](models.batches(), STOCK[optimizer](), resource)
        variables = {one.op.name: one.read_value() for one in tf.global_variables()}
        initialize = tf.global_variables_initializer()
        config = models.config(adam="deferred")
        report = optimize_graph(graph, config) if fuse else None
        with Session(config=config) if fuse else tf.Session() as session:
            session.run(initialize)
            losses = [float(session.run([loss, step])[0]) for _ in range(STEPS)]
            return models.Trained(losses, session.run(variables), report, graph)


def cases() -> Iterator[Any]:
    """Every sixth model with one optimizer and kind of variables; the others are slow."""
    for number, name in enumerate(sorted(MODELS)):
        for place, (optimizer, resource) in enumerate(OPTIMIZERS):
            quick = number % 6 == 1 and place == number // 6 % len(OPTIMIZERS)
            yield pytest.param(name, optimizer, resource, marks=() if quick else pytest.mark.slow)


def updates_of(graph: Any) -> Set[str]:
    """Names of the ops that update tables, fused or not."""
    return {
        operation.name
        for operation in graph.get_operations()
        if "GroupEmbeddingApply" in operation.type
    }


@pytest.mark.parametrize("name, optimizer, resource", list(cases()))
def test_updates_are_fused_with_the_same_numbers(name: str, optimizer: str, resource: bool) -> None:
    fused = train(name, optimizer, resource, fuse=True)
    losses, values = models.difference(fused, train(name, optimizer, resource, fuse=False))
    assert losses < 1e-5 and values < 2e-5
    lookups = fused.report.fused_lookups
    if name == DENSE_MODEL and not resource:
        assert {one.refusals[-1]["code"] for one in lookups} == {"update_is_dense"}
        return
    assert {lookup.update for lookup in lookups} <= FUSED
    assert {refusal["code"] for lookup in lookups for refusal in lookup.refusals} <= LEFT
    unexplained = [one for one in lookups if one.gradient == "stock" and not one.refusals]
    assert not unexplained
    assert not [reader for reader in fused.report.dense_readers if reader.in_each_step]


def accumulate(optimizer: str, resource: bool, fuse: bool) -> List[Any]:
    """The values of all variables as a script sees them that accumulates in runs of their own."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        made = STOCK[optimizer]()
        loss = loss_of(models.batches(), resource)
        gradients, variables = zip(*made.compute_gradients(loss))
        held = accumulators(variables, resource)
        zero = [sums.assign(tf.zeros_like(sums)) for sums in held]
        adds = [sums.assign_add(gradient) for sums, gradient in zip(held, gradients)]
        with tf.control_dependencies(adds):
            count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        apply = made.apply_gradients([(sums / 3.0, one) for sums, one in zip(held, variables)])
        values = [one.read_value() for one in tf.global_variables()]
        initialize = tf.global_variables_initializer()
        seen = []
        options = models.config(adam="deferred")
        with Session(config=options) if fuse else tf.Session() as session:
            session.run(initialize)
            for _ in range(2):
                session.run(zero)
                # What is fetched by itself beside what waits for it is added once all the same.
                for fetches in ([one.op for one in adds], adds, [*adds, count]):
                    seen.append(session.run(fetches)[: len(adds)])
                session.run(apply)
                seen.append(session.run(values))
            found = report() if fuse else None
            assert found is None or {one.update for one in found.fused_lookups} <= FUSED
        return [value for step in seen for value in step if value is not None]


@pytest.mark.parametrize(
    "optimizer, resource",
    slow_but([("adagrad", False), ("adagrad", True), ("adam", False)], ("adagrad", True)),
)
def test_gradients_accumulated_in_variables(optimizer: str, resource: bool) -> None:
    found = accumulate(optimizer, resource, fuse=True)
    expected = accumulate(optimizer, resource, fuse=False)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_clipped_updates_of_all_tables_are_one_op() -> None:
    fused = train("clipped_by_global_norm", "adagrad", resource=False, fuse=True)
    assert len(updates_of(fused.graph)) == 1
    gradients = {lookup.tables[0]: lookup.gradient for lookup in fused.report.fused}
    assert gradients == {"one": "fused", "parted/part_0": "fused", "rows": "stock"}


@pytest.mark.parametrize(
    "name, optimizer, changed",
    [
        ("towers_clipped_together", "dense_adam", 4),
        pytest.param("towers_clipped_together", "adam_weight_decay", 4, marks=pytest.mark.slow),
        ("accumulated_in_variables", "dense_adam", 8),
        ("accumulated_and_used_in_a_branch", "dense_adam", 8),
        ("slices_applied_if_finite", "adam", 4),
    ],
)
def test_nothing_as_large_as_a_table_is_left_of_dense_gradients(
    name: str, optimizer: str, changed: int
) -> None:
    _, step = MODELS[name](models.batches(), {**STOCK, **DENSE}[optimizer](), False)
    shapes = [tuple(one.shape.as_list()) for one in tf.trainable_variables()]
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    optimized = optimize_graph_def(graph_def, models.config(adam="deferred"))
    assert {lookup.update for lookup in optimized.report.fused_lookups} == {"deferred"}
    change = "{} gradients as large as the table computed for the rows that occur"
    assert change.format(changed) in optimized.report.changes
    view = GraphView(optimized.graph_def)
    sums = {node: view.shape(TensorRef(node, 0)) for node in view.of_op("UnsortedSegmentSum")}
    large = {node for node, shape in sums.items() if shape in shapes}
    assert large and large.isdisjoint(view.ancestors([TensorRef.parse(step.name).node]))


@pytest.mark.parametrize("optimizer", ["ftrl", "adagrad"])
def test_updates_are_one_op_although_keras_computes_hyperparameters_for_each_table(
    optimizer: str,
) -> None:
    name, options = KERAS[optimizer]
    made = getattr(keras_optimizers(), name)(0.1, **options)
    inputs = models.batches()
    tables = [models.table("t{}".format(i), resource=True) for i in range(3)]
    ids = tf.sparse.from_dense(inputs["ids"])
    pooled = [tf.nn.safe_embedding_lookup_sparse(table, ids) for table in tables]
    loss = models.loss_of(pooled, inputs)
    made.apply_gradients(zip(tf.gradients(loss, tables), tables))
    report = optimize_graph(tf.get_default_graph(), models.config())
    assert [lookup.update for lookup in report.fused] == ["fused"] * 3
    assert len(updates_of(tf.get_default_graph())) == 1


def test_gradients_of_a_row_for_each_id_that_are_accumulated_are_told_to_be() -> None:
    ids = tf.placeholder(tf.int64, [None])
    rows = tf.nn.embedding_lookup(tf.get_variable("table", [8, 4]), ids)
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.AdagradOptimizer(0.1), 2)
    optimizer.minimize(tf.reduce_sum(rows), global_step=tf.train.get_or_create_global_step())
    (lookup,) = optimize_graph(tf.get_default_graph(), models.config()).fused_lookups
    assert lookup.gradient == "stock" and lookup.update == "fused"
    assert [refusal["code"] for refusal in lookup.refusals] == ["gradient_accumulated"]
