"""Updates are fused, with TensorFlow's numbers, whatever stands between them and the gradients."""

from __future__ import annotations

from typing import Any, Set

import pytest

from graph_opt.compat import tf
from graph_opt.session.live import optimize_graph
from tests.optimizer_models import STOCK
from tests.passes import fused_models as models
from tests.passes.fusion.changed_gradients import MODELS

STEPS = 6
# Lookups of which something is left, with the reason; that the lookup itself is, is no matter here.
LEFT = {"gradient_changed_before_update", "gradient_accumulated", "rows_clipped"}


def train(name: str, optimizer: str, resource: bool, fuse: bool) -> models.Trained:
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        loss, step = MODELS[name](models.batches(), STOCK[optimizer](), resource)
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        initialize = tf.global_variables_initializer()
        report = optimize_graph(graph, models.config()) if fuse else None
        with tf.Session() as session:
            session.run(initialize)
            losses = [float(session.run([loss, step])[0]) for _ in range(STEPS)]
            return models.Trained(losses, session.run(variables), report, graph)


def updates_of(graph: Any) -> Set[str]:
    """Names of the ops that update tables, fused or not."""
    return {
        operation.name
        for operation in graph.get_operations()
        if "GroupEmbeddingApply" in operation.type
    }


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("optimizer, resource", [("adagrad", False), ("momentum", True)])
def test_updates_are_fused_with_the_same_numbers(name: str, optimizer: str, resource: bool) -> None:
    fused = train(name, optimizer, resource, fuse=True)
    losses, values = models.difference(fused, train(name, optimizer, resource, fuse=False))
    assert losses < 1e-5 and values < 2e-5
    lookups = fused.report.fused_lookups
    assert [lookup.update for lookup in lookups] == ["fused"] * len(lookups)
    assert {refusal["code"] for lookup in lookups for refusal in lookup.refusals} <= LEFT
    unexplained = [one for one in lookups if one.gradient == "stock" and not one.refusals]
    assert not unexplained


def test_clipped_updates_of_all_tables_are_one_op() -> None:
    fused = train("clipped_by_global_norm", "adagrad", resource=False, fuse=True)
    assert len(updates_of(fused.graph)) == 1
    gradients = {lookup.tables[0]: lookup.gradient for lookup in fused.report.fused}
    assert gradients == {"one": "fused", "parted/part_0": "fused", "rows": "stock"}
