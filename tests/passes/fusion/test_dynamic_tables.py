"""Lookups, gradients and updates of dynamic tables are fused, alone and beside those of others."""

from __future__ import annotations

from typing import Any, List

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.optimize import optimize_graph_def
from tests.passes import fused_models
from tests.passes.fusion import dynamic_models as models


def optimized(clip: bool = False, optimizer: str = "Adagrad") -> Any:
    inputs = fused_models.batches()
    models.minimize(fused_models.loss_of(models.every_api(inputs), inputs), optimizer, clip)
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    return optimize_graph_def(graph_def, fused_models.config())


def ops_of(result: Any, prefix: str) -> List[str]:
    """Ops of the new nodes of some kind."""
    view = GraphView(result.graph_def)
    return sorted(op for op in view.ops() for name in view.of_op(op) if name.startswith(prefix))


def test_lookups_and_updates_of_every_api_are_fused_with_those_of_a_static_table() -> None:
    result = optimized()
    lookups = result.report.fused_lookups
    assert [lookup.update for lookup in lookups] == ["fused"] * 8
    assert len({lookup.group for lookup in lookups}) == 2  # those that drop ids < 0, and the others
    # Tables whose lookups are of both kinds are updated from slices, whose rows are found again.
    assert ops_of(result, "group_embedding/rows").count("GroupDynamicRows") == 3


@pytest.mark.parametrize("clip", [False, True])
def test_clipped_gradients_are_summed_by_key(clip: bool) -> None:
    fused = optimized(clip).report.fused_lookups
    stock = [lookup.name for lookup in fused if lookup.gradient != "fused"]
    assert stock == (
        ["embedding_lookup_2", "embedding_lookup_3"] if clip else ["embedding_lookup_2"]
    )
    assert [lookup.update for lookup in fused] == ["fused"] * 8
