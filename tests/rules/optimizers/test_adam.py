"""Adam as TensorFlow 1 and Keras write it: every edge is checked."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.optimizers.sparse_update import SparseUpdate, sparse_updates
from tests.rules.gradient_values import changed, loss_of
from tests.rules.lookup_models import CORE_MODELS, Model
from tests.rules.lookup_values import shaped_view


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def adam(resource: bool = False, **options: Any) -> Tuple[GraphView, SparseUpdate]:
    model = Model(tf, resource=resource)
    CORE_MODELS["sparse_mean"](model)
    tf.train.AdamOptimizer(0.1, **options).minimize(loss_of(model))
    view = shaped_view()
    return view, sparse_updates(view, ["table"]).found["table"]


@pytest.mark.parametrize("resource", [False, True])
def test_slots_are_m_and_v_and_the_end_is_the_group(resource: bool) -> None:
    _, update = adam(resource)
    assert [str(slot) for slot in update.slots] == ["table/Adam:0", "table/Adam_1:0"]
    assert update.end == "Adam/update_table/group_deps"
    assert update.attributes == {"use_locking": False}


@pytest.mark.parametrize("resource", [False, True])
def test_hyperparameters_are_in_the_order_of_the_op(resource: bool) -> None:
    _, update = adam(resource, beta1=0.5, beta2=0.25, epsilon=0.125)
    read = "Read/ReadVariableOp" if resource else "read"
    assert update.hyperparameters[1:] == (
        0.5,
        0.25,
        0.125,
        TensorRef("beta1_power/" + read, 0),
        TensorRef("beta2_power/" + read, 0),
    )


def test_locks_are_kept() -> None:
    assert adam(use_locking=True)[1].attributes == {"use_locking": True}


def test_reads_of_slots_that_users_fetch_do_not_belong_to_it() -> None:
    _, update = adam()
    assert "table/Adam/read" not in update.nodes


@pytest.mark.parametrize("resource", [False, True])
def test_all_that_the_optimizer_made_for_the_table_belongs_to_it(resource: bool) -> None:
    view, update = adam(resource)
    made = [
        name
        for name in view.nodes
        if name.startswith("Adam/update_table/") and view.op(name) != "Const"
    ]
    reads = {name for name in made if view.op(name) == "ReadVariableOp"}
    assert set(made) - reads <= set(update.nodes)
    powers = [name for name in reads if name not in update.nodes]
    assert all("beta" in view.inputs(name)[0].node for name in powers)


def same_update(view: GraphView, update: SparseUpdate) -> bool:
    """Whether the same op would still replace the update of a changed graph."""
    return sparse_updates(view, ["table"]).found.get("table") == update


@pytest.mark.parametrize("resource", [False, True])
def test_looks_at_every_edge_and_operation(resource: bool) -> None:
    view, update = adam(resource)
    missed: List[Tuple[str, Any]] = []
    for node in update.nodes:
        if node == update.end or not view.successors(node):
            continue

        def replace(proto: Any) -> None:
            proto.op = "Other"

        if same_update(changed(view, node, replace), update):
            missed.append((node, "op"))
        for slot in range(len(view.inputs(node))):

            def rewire(proto: Any, slot: int = slot) -> None:
                proto.input[slot] = "alien"

            if same_update(changed(view, node, rewire), update):
                missed.append((node, slot))
    plumbing = [(node, slot) for node, slot in missed if node.endswith("strided_slice")]
    assert missed == plumbing and all(slot in (1, 2, 3) for _, slot in plumbing)


@pytest.mark.parametrize("resource", [False, True])
def test_refuses_an_update_whose_moment_something_else_reads(resource: bool) -> None:
    view, update = adam(resource)
    scatter = next(name for name in update.nodes if "ScatterAdd" in view.op(name))
    graph_def = tf.GraphDef(node=view.nodes.values(), library=view.library)
    graph_def.node.add(name="waits", op="NoOp", input=["^" + scatter])
    refusals = sparse_updates(GraphView(graph_def), ["table"]).refusals
    assert refusals["table"].code == "update_not_recognised"


@pytest.mark.parametrize("resource", [False, True])
def test_other_dense_subtractions_are_refused(resource: bool) -> None:
    table = tf.get_variable("table", [10, 4], use_resource=resource)
    tf.assign_sub(table, table * 0.5)
    refusals = sparse_updates(shaped_view(), ["table"]).refusals
    assert refusals["table"].code == "update_not_recognised"
