"""Lookups that would wait for themselves as parts of one op, and what is still fused then."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.graph.verify import CycleError, GraphError
from graph_opt.passes import pass_state
from graph_opt.passes.verify_stages import verify_stages
from graph_opt.session.live import optimize_graph
from tests.passes import fused_models as models

WIDTH = 4


class Piece(NamedTuple):
    """One table with its lookup.

    Attributes:
      late: Whether its ids wait for the update of the linear tables that are not late.
      linear: Whether its gradient is the same whatever its rows are.
      clipped: Whether its gradient is changed, so that the optimizer's own update stays.
    """

    late: bool = False
    linear: bool = False
    clipped: bool = True


def pooled(name: str, ids: Any) -> Tuple[Any, Any]:
    table = models.table("table_of_" + name, WIDTH)
    indices = [[row, place] for row in range(models.BATCH) for place in range(3)]
    bags = tf.SparseTensor(indices, tf.reshape(ids, [-1]), [models.BATCH, 3])
    return tf.nn.embedding_lookup_sparse(table, bags, None, combiner="sum", name=name), table


def gradient(piece: Piece, result: Any, table: Any, loss: Any) -> Any:
    if piece.linear:
        slices = tf.gradients([result], [table], grad_ys=[tf.ones([models.BATCH, WIDTH])])[0]
    else:
        slices = tf.gradients(loss, [table])[0]
    if not piece.clipped:
        return slices
    clipped = tf.clip_by_value(slices.values, -0.05, 0.05)
    return tf.IndexedSlices(clipped, slices.indices, slices.dense_shape)


def train(pieces: Sequence[Piece], fused: bool) -> Tuple[List[float], Dict[str, Any], Any]:
    """Trains all tables in each step; late ids wait for the update of early linear ones."""
    with tf.Graph().as_default() as graph:
        ids = models.batches()["more"]
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        total = tf.constant(0.0)
        updates: Dict[Tuple[bool, bool], Any] = {}
        for late, linear in ((False, True), (False, False), (True, False), (True, True)):
            chosen = [i for i, one in enumerate(pieces) if (one.late, one.linear) == (late, linear)]
            if chosen:
                before = [updates[False, True]] if late and (False, True) in updates else []
                with tf.control_dependencies(before):
                    fresh = tf.identity(ids)
                found = [(pieces[i], *pooled("t{}".format(i), fresh)) for i in chosen]
                loss = tf.add_n([tf.reduce_mean(tf.tanh(result)) for _, result, _ in found])
                pairs = [(gradient(p, result, table, loss), table) for p, result, table in found]
                updates[late, linear] = optimizer.apply_gradients(pairs)
                total += loss if not linear else 0.0
        with tf.control_dependencies(list(updates.values())):
            result = tf.identity(total, name="result")
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        initialize = tf.global_variables_initializer()
        report = optimize_graph(graph, models.config()) if fused else None
        with tf.Session() as session:
            session.run(initialize)
            losses = [float(session.run(result)) for _ in range(3)]
            return losses, session.run(variables), report


CLOSING = (Piece(), Piece(linear=True), Piece(), Piece(late=True), Piece(late=True))


def test_what_closes_a_cycle_is_left_and_named_and_the_rest_is_fused() -> None:
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
        if refusal["code"] == "fusion_makes_a_circle"
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


@settings(max_examples=15)
@given(PIECES)
def test_random_orders_of_updates_train_the_same(pieces: List[Piece]) -> None:
    losses, values, _ = train(pieces, fused=False)
    fused_losses, fused_values, report = train(pieces, fused=True)
    np.testing.assert_allclose(fused_losses, losses, rtol=1e-5)
    for name, value in values.items():
        np.testing.assert_allclose(fused_values[name], value, rtol=1e-4, atol=1e-6)
    assert report.fused


def test_a_defect_of_the_pass_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(_: Any) -> None:
        raise GraphError("a planted fault")

    monkeypatch.setattr(pass_state, "verify_stages", fault)
    with pytest.raises(GraphError, match="a planted fault"):
        train([Piece(), Piece()], fused=True)


def test_a_cycle_that_no_fused_op_is_on_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out for a cycle must be part of it; else it is the pass that is wrong."""

    def fault(view: Any) -> None:
        verify_stages(view)
        raise CycleError("a planted cycle", [frozenset(["result"])])

    monkeypatch.setattr(pass_state, "verify_stages", fault)
    with pytest.raises(CycleError, match="a planted cycle"):
        train([Piece(), Piece()], fused=True)
