"""Ids of a dense tensor from which a lookup leaves out those below 0.

    ids [B, k] ─┬─ NotEqual(-1) ─ Where ──┬────────────── indices
                ├─ GatherNd(ids, ·) ──────┘  ─ (Cast) ─── values
                └─ Shape ──────────────────────────────── dense_shape

Feature columns make a SparseTensor of dense ids in this way, and a safe lookup then drops the
values that are below 0. An op that takes the dense ids, and drops them itself, computes the same
from the same ids in the same order, without the four ops.
"""

from __future__ import annotations

from typing import Optional

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.lookup import Lookup

_MATRIX = 2
_INTEGERS = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)


def dense_bags(view: GraphView, lookup: Lookup) -> Optional[TensorRef]:
    """The dense ids, [B, k], of a safe lookup that reads all of them but those below 0.

    Args:
      view: The graph.
      lookup: A lookup whose `given` has `ids`, `indices` and `dense_shape`.

    Returns:
      The tensor of which each row is a bag; None if the ids are not of this form.
    """
    given = lookup.given
    values = _before_cast(view, _passed_on(view, given["ids"]))
    indices, shape = (_passed_on(view, given[name]) for name in ("indices", "dense_shape"))
    ops = (view.op(values.node), view.op(indices.node), view.op(shape.node))
    if ops != ("GatherNd", "Where", "Shape"):
        return None
    dense, places = (_passed_on(view, tensor) for tensor in view.inputs(values.node))
    compared = view.inputs(indices.node)[0]
    if places != indices or view.op(compared.node) != "NotEqual":
        return None
    left, ignored = view.inputs(compared.node)
    read = (_passed_on(view, left), _passed_on(view, view.inputs(shape.node)[0]))
    if any(tensor != dense for tensor in read) or not _is_below_0(view, ignored):
        return None
    if any(view.controls(each.node) for each in (values, indices, compared, shape)):
        return None  # The lookup would not wait for what they wait for.
    is_matrix = len(view.shape(dense) or ()) == _MATRIX
    return dense if is_matrix and view.dtype(dense) in _INTEGERS else None


def _passed_on(view: GraphView, tensor: TensorRef) -> TensorRef:
    """What identities pass on that wait for nothing else, such as checks of ids."""
    while view.op(tensor.node) == "Identity" and not view.controls(tensor.node):
        tensor = view.inputs(tensor.node)[0]
    return tensor


def _before_cast(view: GraphView, tensor: TensorRef) -> TensorRef:
    """What is cast to int64; the tensor itself if it is no such cast."""
    is_cast = view.op(tensor.node) == "Cast" and not view.controls(tensor.node)
    if not is_cast or view.dtype(tensor) != tf.int64.as_datatype_enum:
        return tensor
    return _passed_on(view, view.inputs(tensor.node)[0])


def _is_below_0(view: GraphView, tensor: TensorRef) -> bool:
    """Whether a tensor is an integer constant below 0, cast or not."""
    if view.op(tensor.node) == "Cast":
        tensor = view.inputs(tensor.node)[0]
    value = view.constant(tensor)
    return value is not None and value.shape == () and value.dtype.kind == "i" and bool(value < 0)
