"""Lookups, gradients and updates of dynamic tables are fused, alone and beside those of others."""

from __future__ import annotations

from typing import Any, List

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.optimize import optimize_graph_def
from tests.optimizer_models import STOCK
from tests.passes import fused_models
from tests.passes.fusion import dynamic_models as models


def optimized(lookups: models.Lookups, clip: bool = False) -> Any:
    inputs = fused_models.batches()
    models.minimize(fused_models.loss_of(lookups(inputs), inputs), clip=clip)
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
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


@pytest.mark.parametrize("optimizer", STOCK)
def test_training_is_the_same_with_every_optimizer(optimizer: str) -> None:
    # TensorFlow's Adam moves every row of a static table, and a fused one does so, too, later.
    lookups = of_dynamic_tables if optimizer == "adam" else models.every_api
    fused = models.train(lookups, fused_models.config(), optimizer)
    models.assert_equal(fused, models.train(lookups, None, optimizer))
    assert {lookup.update for lookup in fused.report.fused_lookups} == {"fused"}


def of_dynamic_tables(inputs: models.Inputs) -> List[Any]:
    """The same lookups without that of the static table."""
    return models.every_api(inputs, static=False)
