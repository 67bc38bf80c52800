"""Lookups that would form a cycle as one op, and what is still fused."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.graph.verify import CycleError, GraphError
from graph_opt.passes import pass_state
from graph_opt.passes.prefetch.verify_stages import verify_stages
from graph_opt.session.live import optimize_graph
from tests.example_share import example_share
from tests.passes import fused_models as models
from tests.passes.cyclic_models import CLOSING, Piece, build


def train(pieces: Sequence[Piece], fused: bool) -> Tuple[List[float], Dict[str, Any], Any]:
    """Losses, variables at the end, and the report."""
    with tf.Graph().as_default() as graph:
        result = build(models.batches()["more"], pieces)
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        initialize = tf.global_variables_initializer()
        report = optimize_graph(graph, models.config()) if fused else None
        with tf.Session() as session:
            session.run(initialize)
            losses = [float(session.run(result)) for _ in range(3)]
            return losses, session.run(variables), report


def test_what_closes_a_cycle_is_left_out_and_named_and_the_rest_is_fused() -> None:
    losses, values, _ = train(CLOSING, fused=False)
    fused_losses, fused_values, report = train(CLOSING, fused=True)
    assert fused_losses == losses
    for name, value in values.items():
        np.testing.assert_array_equal(fused_values[name], value)
    assert len(report.fused) == len(CLOSING) and len({one.group for one in report.fused}) == 1
    refusals = {
        one.name: refusal
        for one in report.fused_lookups
        for refusal in one.refusals
        if refusal["code"] == "fusion_makes_a_cycle"
    }
    assert list(refusals) == ["t1"]
    for name in ("t0", "t1", "t2", "t3", "t4"):
        assert name in refusals["t1"]["saw"]
    gradients = {one.name: one.gradient for one in report.fused_lookups}
    assert gradients == {"t0": "fused", "t1": "stock", "t2": "fused", "t3": "fused", "t4": "fused"}


PIECES = st.lists(
    st.builds(Piece, late=st.booleans(), linear=st.booleans(), clipped=st.booleans()),
    min_size=2,
    max_size=5,
)


@example_share(0.05)
@given(PIECES)
def test_random_orders_of_updates_train_the_same(pieces: List[Piece]) -> None:
    losses, values, _ = train(pieces, fused=False)
    fused_losses, fused_values, report = train(pieces, fused=True)
    np.testing.assert_allclose(fused_losses, losses, rtol=1e-5)
    for name, value in values.items():
        np.testing.assert_allclose(fused_values[name], value, rtol=1e-4, atol=1e-6)
    assert report.fused


def test_a_bug_in_the_pass_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(_: Any) -> None:
        raise GraphError("a planted fault")

    monkeypatch.setattr(pass_state, "verify_stages", fault)
    with pytest.raises(GraphError, match="a planted fault"):
        train([Piece(), Piece()], fused=True)


def test_a_cycle_that_no_fused_op_is_on_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out because of a cycle must be part of it; otherwise the pass has a bug."""

    def fault(view: Any) -> None:
        verify_stages(view)
        raise CycleError("a planted cycle", [frozenset(["result"])])

    monkeypatch.setattr(pass_state, "verify_stages", fault)
    with pytest.raises(CycleError, match="a planted cycle"):
        train([Piece(), Piece()], fused=True)
