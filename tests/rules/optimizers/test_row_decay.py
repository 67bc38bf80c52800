"""AdamW of `tf.train`: a decay of rows, then Adam's update. Every edge of the decay is checked."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.optimizers.adam_w import AdamWOptimizer
from graph_opt.rules.optimizers.sparse_update import SparseUpdate, sparse_updates
from tests.rules.gradient_values import changed, loss_of
from tests.rules.lookup_models import CORE_MODELS, Model
from tests.rules.lookup_values import shaped_view


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def loss(resource: bool) -> Any:
    model = Model(tf, resource=resource)
    CORE_MODELS["sparse_mean"](model)
    return loss_of(model)


def decaying(resource: bool, **options: Any) -> Tuple[GraphView, SparseUpdate]:
    AdamWOptimizer(0.25, 0.5, **options).minimize(loss(resource))
    view = shaped_view()
    return view, sparse_updates(view, ["table"]).found["table"]


@pytest.mark.parametrize("resource", [False, True])
def test_both_are_one_update(resource: bool) -> None:
    view, update = decaying(resource, use_locking=True)
    assert (update.optimizer, update.moves_every_row) == ("DecayingAdam", True)
    assert update.attributes == {"use_locking": not resource}
    assert (update.hyperparameters[0], update.hyperparameters[-1]) == (0.5, 0.25)
    made = {name for name in view.nodes if name.startswith("AdamW/update_table/")}
    left = {view.op(name) for name in made - set(update.nodes)}
    assert left <= {"Const"}


@pytest.mark.parametrize("resource", [False, True])
def test_looks_at_every_edge_of_the_decay(resource: bool) -> None:
    view, update = decaying(resource)
    decay = next(name for name in view.nodes if view.op(name).endswith("ScatterSub"))
    missed: List[Tuple[str, Any]] = []
    nodes = [decay]
    for node in nodes:
        nodes += [
            source.node
            for source in view.inputs(node)
            if source.node in update.nodes and not view.op(source.node).startswith("Unique")
        ]
        for slot in range(len(view.inputs(node))):

            def rewire(proto: Any, slot: int = slot) -> None:
                proto.input[slot] = "alien"

            if sparse_updates(changed(view, node, rewire), ["table"]).found.get("table") == update:
                missed.append((node, slot))
    assert len(nodes) > 2 and missed == []


def refusal(view: GraphView) -> str:
    return sparse_updates(view, ["table"]).refusals["table"].code


@pytest.mark.parametrize("resource", [False, True])
def test_refuses_a_decay_that_something_else_waits_for(resource: bool) -> None:
    view, _ = decaying(resource)
    decay = next(name for name in view.nodes if view.op(name).endswith("ScatterSub"))
    graph_def = tf.GraphDef(node=view.nodes.values(), library=view.library)
    graph_def.node.add(name="waits", op="NoOp", input=["^" + decay])
    assert refusal(GraphView(graph_def)) == "update_not_recognised"


@pytest.mark.parametrize("resource", [False, True])
def test_refuses_an_update_that_does_not_wait_for_the_decay(resource: bool) -> None:
    view, _ = decaying(resource)
    decay = next(name for name in view.nodes if view.op(name).endswith("ScatterSub"))
    graph_def = tf.GraphDef(node=view.nodes.values(), library=view.library)
    for node in graph_def.node:
        for waits in [name for name in node.input if name == "^" + decay]:
            node.input.remove(waits)
    assert refusal(GraphView(graph_def)) == "update_not_recognised"


@pytest.mark.parametrize("resource", [False, True])
def test_a_decay_before_another_optimizer_is_a_second_update(resource: bool) -> None:
    table_loss = loss(resource)
    table = tf.trainable_variables()[0]
    optimizer = tf.train.AdagradOptimizer(0.1)
    ((slices, _),) = optimizer.compute_gradients(table_loss)
    unique, _ = tf.unique(slices.indices)
    lost = tf.IndexedSlices(0.5 * tf.gather(table, unique), unique)
    with tf.control_dependencies([table.scatter_sub(lost)]):
        optimizer.apply_gradients([(slices, table)])
    assert refusal(shaped_view()) == "table_updated_twice"
