"""Lookups that a ConcatV2 joins, in every position they may have in it."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.passes.optimize import optimize_graph_def
from tests.passes import fused_models as models

Inputs = Dict[str, Any]


def pooled(inputs: Inputs, count: int = 3) -> List[Any]:
    sparse = tf.sparse.from_dense(inputs["ids"])
    return [
        tf.nn.safe_embedding_lookup_sparse(models.table("t{}".format(i), 2 + i), sparse)
        for i in range(count)
    ]


def first(inputs: Inputs) -> List[Any]:
    """All adjacent, before the dense features."""
    return pooled(inputs)


def last(inputs: Inputs) -> List[Any]:
    """After something else."""
    return [inputs["dense"], *pooled(inputs)]


def interrupted(inputs: Inputs) -> List[Any]:
    """The longer run is joined, the other lookup stays separate."""
    one, two, three = pooled(inputs)
    return [one, inputs["dense"], two, three]


def swapped(inputs: Inputs) -> List[Any]:
    """Not in the order in which they were created."""
    return list(reversed(pooled(inputs)))


def alone(inputs: Inputs) -> List[Any]:
    """Nothing but lookups is joined: the ConcatV2 itself is dropped."""
    return [tf.concat(pooled(inputs), axis=-1)]


def read_elsewhere(inputs: Inputs) -> List[Any]:
    """One is read by something else, too."""
    one, two, three = pooled(inputs)
    return [one, two, three, tf.square(two)]


def many(inputs: Inputs) -> List[Any]:
    """More than 16: TensorFlow cuts the gradient with SplitV in place of Slices."""
    return pooled(inputs, 18)


@pytest.mark.parametrize(
    "lookups, joined",
    [
        (first, 3),
        (last, 3),
        (interrupted, 2),
        (swapped, 3),
        (alone, 3),
        (read_elsewhere, 0),
        pytest.param(many, 18, marks=pytest.mark.slow),
    ],
)
def test_joined_lookups_train_the_same(lookups: Any, joined: int) -> None:
    fused = models.train(lookups, options=models.config())
    losses, values = models.difference(fused, models.train(lookups))
    assert losses < 1e-5 and values < 1e-5
    columns = [len(node.attr["columns"].list.i) for node in ops(fused, "GroupEmbeddingLookup")]
    assert max(columns) == joined
    updates = [len(node.attr["columns"].list.i) for node in ops(fused, "GroupEmbeddingApply")]
    assert max(updates) == joined


def ops(trained: models.Trained, op: str) -> List[Any]:
    return [node for node in graph_opt.running_graph_def(trained.graph).node if node.op == op]


def test_a_summary_of_one_lookup_reads_a_slice_of_the_joined_tensor() -> None:
    """Summaries of one lookup keep their value through a slice of the joined tensor."""
    with tf.Graph().as_default() as graph:
        inputs = models.batches()
        outputs = pooled(inputs)
        tf.summary.histogram("rows", outputs[1])
        loss = models.loss_of(outputs, inputs)
        tf.train.AdagradOptimizer(0.1).minimize(loss)
        graph_def = graph.as_graph_def(add_shapes=True)
    optimized = optimize_graph_def(graph_def, models.config())
    nodes = {node.name: node for node in optimized.graph_def.node}
    assert nodes[nodes["rows"].input[1].split(":")[0]].op in ("Slice", "GroupEmbeddingLookup")
