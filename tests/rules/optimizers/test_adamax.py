"""Adamax as Keras writes it: every edge is checked."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.rules.optimizers.sparse_update import SparseUpdate, sparse_updates
from tests.release_features import keras_optimizers
from tests.rules.gradient_values import changed, loss_of
from tests.rules.lookup_models import CORE_MODELS, Model
from tests.rules.lookup_values import shaped_view


def adamax() -> Tuple[GraphView, SparseUpdate]:
    model = Model(tf, resource=True)
    CORE_MODELS["sparse_mean"](model)
    optimizer = keras_optimizers().Adamax(0.1)
    with tf.control_dependencies(optimizer.get_updates(loss_of(model), tf.trainable_variables())):
        tf.no_op()
    view = shaped_view()
    return view, sparse_updates(view, ["table"]).found["table"]


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def test_slots_and_end() -> None:
    view, update = adamax()
    assert [slot.node.split("/")[-1] for slot in update.slots] == ["m", "v"]
    assert view.op(update.end) == "NoOp" and not update.moves_every_row


def test_looks_at_every_edge_and_operation() -> None:
    view, update = adamax()
    missed: List[Tuple[str, Any]] = []
    for node in update.nodes:
        is_unread = node == update.end or view.op(node) == "ReadVariableOp"
        if is_unread or not view.successors(node) or "strided_slice" in node:
            continue

        def replace(proto: Any) -> None:
            proto.op = "Other"

        if is_same(changed(view, node, replace), update):
            missed.append((node, "op"))
        for slot in range(len(view.inputs(node))):

            def rewire(proto: Any, slot: int = slot) -> None:
                proto.input[slot] = "alien"

            if is_same(changed(view, node, rewire), update):
                missed.append((node, slot))
    assert missed == []


def is_same(view: GraphView, update: SparseUpdate) -> bool:
    return sparse_updates(view, ["table"]).found.get("table") == update


def test_refuses_an_update_whose_slot_something_else_reads() -> None:
    view, update = adamax()
    scatter = next(name for name in update.nodes if "ScatterUpdate" in view.op(name))
    graph_def = tf.GraphDef(node=view.nodes.values(), library=view.library)
    graph_def.node.add(name="waits", op="NoOp", input=["^" + scatter])
    refusals = sparse_updates(GraphView(graph_def), ["table"]).refusals
    assert refusals["table"].code == "update_not_recognised"
