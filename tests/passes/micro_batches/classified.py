"""What is known of tensors that are computed from the rows of a batch, as short texts.

early        computed once, before all parts
rows 0       each part has its rows along this axis; `x 2`: two elements for each of them
total        the parts' tensors add up to it; `mean`: in proportion to their numbers of rows
numbers      a shape, or what is computed from one, in which a number of rows is the part's own
shared       all parts have the same
late: why    computed once, after all parts
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.micro_batches.classify import COPIED, EARLY, LATE, Classifier

WIDTH = 6
Tensors = Dict[str, Any]


def batch(rows: Optional[int] = None) -> Any:
    """A batch [rows, 6], whose number of rows is open unless it is given."""
    return tf.placeholder(tf.float32, [rows, WIDTH], name="batch")


def layer(rows: Optional[int] = None) -> Any:
    """A layer over a batch, of its shape."""
    weights = tf.get_variable("layer_weights", [WIDTH, WIDTH], use_resource=False)
    return tf.matmul(batch(rows), weights, name="layer")


def weights(*shape: int) -> Any:
    """A variable of this shape."""
    name = "weights_{}".format("_".join(map(str, shape)))
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        return tf.get_variable(name, list(shape), use_resource=False)


def classifier() -> Classifier:
    """That of the default graph."""
    view = GraphView(tf.get_default_graph().as_graph_def(add_shapes=True))
    return Classifier(view, frozenset(), 2)


def told(make: Callable[[Any], Tensors], rows: Optional[int] = None) -> Dict[str, str]:
    """What is known of each of the tensors that a function makes of a layer."""
    tensors = make(layer(rows))
    found = classifier()
    return {name: _told(found, tensor) for name, tensor in tensors.items()}


def uses(tensor: Any) -> Dict[int, str]:
    """How the copies of a node read its inputs."""
    node = classifier().nodes[tensor.op.name]
    return {slot: use.kind for slot, use in (node.uses or {}).items()}


def _told(found: Classifier, tensor: Any) -> str:
    ref = TensorRef.parse(tensor.name)
    node = found.nodes[ref.node]
    if node.state == LATE:
        return "late: " + ("its inputs" if node.refusal is None else node.refusal.saw)
    value = node.outputs[ref.index]
    if node.state == EARLY:
        return "early"
    assert node.state == COPIED
    if node.weighted is not None:
        return "mean"
    if value.total:
        return "total"
    if value.rows is None:
        return "shared" if value.shared else "numbers"
    times = value.rows.times
    return "rows {}{}".format(value.rows.axis, "" if times == 1 else " x {}".format(times))
