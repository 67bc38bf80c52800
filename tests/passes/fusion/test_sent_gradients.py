"""Gradients that are summed by row before ranks send them to each other.

In a world of one rank a collective passes on what it gets: these graphs run with an Identity in
its place. `tests/sharding/test_replicated_tables.py` has several ranks.
"""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.optimize import optimize_graph_def
from tests.control_flow import control_flow_v2
from tests.passes.fused_models import config
from tests.passes.fusion.replicated_models import (
    OPTIMIZERS,
    Model,
    Reduced,
    applying,
    require_equal,
)

GATHER = "HorovodAllgather"
REDUCE = "HorovodAllreduce"
BROADCAST = "HorovodBroadcast"
COLLECTIVES = (GATHER, REDUCE, BROADCAST)
STEPS = 5
SUMMED = "2 gradients summed by row before other ranks get them"


def gathered(gradient: Any) -> Any:
    """What `hvd.allreduce` makes of IndexedSlices."""
    values = tf.identity(gradient.values, name=GATHER) / tf.cast(1, tf.float32)
    indices = tf.identity(gradient.indices, name=GATHER)
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def each(gradients: List[Any]) -> Sequence[Any]:
    return [gathered(gradient) for gradient in gradients]


def conditionally(gradients: List[Any]) -> Sequence[Any]:
    """As `DistributedOptimizer` in a graph without functions."""
    with control_flow_v2(False):
        several = tf.convert_to_tensor(True)
        return [tf.cond(several, lambda g=g: gathered(g), lambda g=g: g) for g in gradients]


def clipped_before(gradients: List[Any]) -> Sequence[Any]:
    return each(tf.clip_by_global_norm(gradients, 1.0)[0])


def clipped_after(gradients: List[Any]) -> Sequence[Any]:
    clipped: Sequence[Any] = tf.clip_by_global_norm(each(gradients), 1.0)[0]
    return clipped


def as_dense(gradients: List[Any]) -> Sequence[Any]:
    """What `sparse_as_dense` asks for."""
    return [tf.identity(tf.convert_to_tensor(one), name=REDUCE) for one in gradients]


def built(optimizer: str, reduced: Reduced, use_resource: bool) -> Any:
    """The graph with Identity nodes as collectives, and its model."""
    with tf.Graph().as_default() as graph:
        model = Model(optimizer, applying(reduced), use_resource)
        return graph.as_graph_def(add_shapes=True), model


def with_op(graph_def: Any, op: str) -> Any:
    """The same graph with this op in the place of the collectives."""
    changed = tf.GraphDef()
    changed.CopyFrom(graph_def)
    for node in changed.node:
        collective = any(name in node.name for name in COLLECTIVES)
        if collective and node.op in ("Identity", *COLLECTIVES):
            node.op = op
    return changed


def train(graph_def: Any, model: Model) -> List[np.ndarray]:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(with_op(graph_def, "Identity"), name="")
        return model.trained(session, STEPS)


QUICK: List[Any] = [
    (each, True, "adam"),
    (conditionally, False, "adagrad"),
    (clipped_before, True, "adagrad"),
]
CASES: List[Any] = QUICK + [
    pytest.param(reduced, use_resource, optimizer, marks=pytest.mark.slow)
    for reduced in (each, conditionally, clipped_before)
    for use_resource in (True, False)
    for optimizer in sorted(OPTIMIZERS)
    if (reduced, use_resource, optimizer) not in QUICK
]


@pytest.mark.parametrize(("reduced", "use_resource", "optimizer"), CASES)
def test_a_rank_sends_each_row_once(reduced: Reduced, use_resource: bool, optimizer: str) -> None:
    graph_def, model = built(optimizer, reduced, use_resource)
    fused = optimize_graph_def(with_op(graph_def, GATHER), config())
    if reduced is clipped_before:
        assert any("summed by row" in change for change in fused.report.changes)
    else:
        assert SUMMED in fused.report.changes
        assert all(lookup.gradient == "fused" for lookup in fused.report.fused_lookups)
    view = GraphView(fused.graph_def)
    for collective in view.of_op(GATHER):
        assert "GroupEmbeddingGrad" in {view.op(name) for name in view.ancestors([collective])}
    require_equal(train(fused.graph_def, model), train(graph_def, model))


def test_the_names_of_collectives_stay() -> None:
    graph_def, _ = built("adagrad", each, use_resource=True)
    before = with_op(graph_def, GATHER)
    after = optimize_graph_def(before, config()).graph_def
    names = [{node.name for node in one.node if node.op == GATHER} for one in (before, after)]
    assert names[0] == names[1] and len(names[0]) == 6


def test_a_norm_of_what_was_gathered_needs_all_rows() -> None:
    graph_def, model = built("adagrad", clipped_after, use_resource=True)
    fused = optimize_graph_def(with_op(graph_def, GATHER), config())
    assert not any("summed by row" in change for change in fused.report.changes)
    codes = [one["code"] for lookup in fused.report.fused_lookups for one in lookup.refusals]
    assert set(codes) == {"gradient_changed_before_update"}
    require_equal(train(fused.graph_def, model), train(graph_def, model))


def test_gradients_are_summed_whatever_becomes_of_the_update() -> None:
    graph_def, model = built("adagrad", each, use_resource=True)
    fused = optimize_graph_def(with_op(graph_def, GATHER), config(fuse_update=False))
    assert SUMMED in fused.report.changes
    require_equal(train(fused.graph_def, model), train(graph_def, model))


def test_gradients_as_large_as_tables_are_said_to_be_what_keeps_an_update() -> None:
    graph_def, model = built("adagrad", as_dense, use_resource=True)
    fused = optimize_graph_def(with_op(graph_def, REDUCE), config())
    refusals = [one for lookup in fused.report.fused_lookups for one in lookup.refusals]
    dense = [one for one in refusals if one["code"] == "update_is_dense"]
    assert len(dense) == 4 and all(one["saw"] == REDUCE for one in dense)
    assert all("no sparse_as_dense" in one["need"] for one in dense)
    require_equal(train(fused.graph_def, model), train(graph_def, model))


@pytest.mark.parametrize("use_resource", [True, False])
def test_tables_that_start_as_those_of_another_rank(use_resource: bool) -> None:
    """What `hvd.broadcast_global_variables` assigns is no update."""
    with tf.Graph().as_default() as graph:
        Model("adam", tf_minimize, use_resource)
        for table in tf.trainable_variables():
            table.assign(tf.identity(table, name=BROADCAST))
        fused = optimize_graph_def(
            with_op(graph.as_graph_def(add_shapes=True), BROADCAST), config()
        )
    assert {one.update for one in fused.report.fused_lookups} == {"deferred"}


def tf_minimize(optimizer: Any, loss: tf.Tensor, tables: Sequence[Any]) -> tf.Operation:
    return optimizer.minimize(loss, var_list=tables)
