"""Ids of a dense tensor from which a lookup leaves out those below 0.

    ids [B, k] ─┬─ NotEqual(-1) ─ Where ──┬────────────── indices
                ├─ GatherNd(ids, ·) ──────┘  ─ (Cast) ─── values
                └─ Shape ──────────────────────────────── dense_shape

Feature columns make a SparseTensor of dense ids in this way, and a safe lookup then drops the
values that are below 0. An op that takes the dense ids, and drops them itself, computes the same
from the same ids in the same order, without the four ops.

Of dense strings, or of numbers that are hashed, columns compute ids behind `GatherNd`: a bucket, or
a number in a vocabulary. Each value gives an id of its own, so the dense tensor gives dense ids.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.lookup import Lookup

_MATRIX = 2
_INTEGERS = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)
# What categorical columns do with each value for itself; none of it fails for any value.
_OF_EACH_VALUE = frozenset(
    [
        "StringToHashBucketFast", "StringToHashBucketStrong", "LookupTableFind",
        "LookupTableFindV2", "AsString", "Cast", "Identity", "Add", "AddV2", "Equal", "NotEqual",
        "Select", "SelectV2",
    ]
)  # fmt: skip
_FINDS = ("LookupTableFind", "LookupTableFindV2")


class DenseValues(NamedTuple):
    """The parts of a SparseTensor that is made of a dense one.

    Attributes:
      dense: [B, k], any dtype.
      gathered: Those of its values that are there.
      present: [B, k], which are.
      ignored: The value of those that are not, a tensor.
    """

    dense: TensorRef
    gathered: TensorRef
    present: TensorRef
    ignored: TensorRef


class DenseCategories(NamedTuple):
    """Ids that are computed of the values of such a tensor, each for itself.

    Attributes:
      values: The dense tensor and its parts.
      nodes: From `values.gathered` to the ids, each after its inputs.
      ids: Their result.
    """

    values: DenseValues
    nodes: Dict[str, None]
    ids: TensorRef


def dense_bags(view: GraphView, lookup: Lookup) -> Optional[TensorRef]:
    """The dense ids, [B, k], of a safe lookup that reads all of them but those below 0.

    Args:
      view: The graph.
      lookup: A lookup whose `given` has `ids`, `indices` and `dense_shape`.

    Returns:
      The tensor of which each row is a bag; None if the ids are not of this form.
    """
    found = _dense_values(view, lookup, _before_cast(view, _passed_on(view, lookup.given["ids"])))
    if found is None or view.dtype(found.dense) not in _INTEGERS:
        return None
    return found.dense if _is_below_0(view, found.ignored) else None


def find_dense_categories(view: GraphView, lookup: Lookup) -> Optional[DenseCategories]:
    """What a safe lookup computes ids of, if it is dense and has none of them itself.

    Args:
      view: The graph.
      lookup: A lookup whose `given` has `ids`, `indices` and `dense_shape`.

    Returns:
      None if the ids are not of this form.
    """
    ids = lookup.given["ids"]
    nodes: Dict[str, None] = {}
    gathered = _computed_of(view, ids, nodes)
    if gathered is None or not nodes:
        return None
    values = _dense_values(view, lookup, gathered)
    return None if values is None else DenseCategories(values, nodes, ids)


def _computed_of(view: GraphView, ids: TensorRef, nodes: Dict[str, None]) -> Optional[TensorRef]:
    """The one gathered tensor of whose values ids are computed; notes the nodes between."""
    gathered: Dict[TensorRef, None] = {}
    order = view.topological_order()
    waiting, seen = [ids.node], {ids.node}
    while waiting:
        name = waiting.pop()
        if view.op(name) not in _OF_EACH_VALUE or view.controls(name):
            return None
        nodes[name] = None
        inputs = view.inputs(name)
        for tensor in inputs[1:] if view.op(name) in _FINDS else inputs:
            if view.op(tensor.node) == "GatherNd":
                gathered[tensor] = None
            elif view.shape(tensor) != () and tensor.node not in seen:
                seen.add(tensor.node)
                waiting.append(tensor.node)
    if len(gathered) != 1 or order is None:
        return None
    in_order = [name for name in order if name in nodes]
    nodes.clear()
    nodes.update(dict.fromkeys(in_order))
    return next(iter(gathered))


def _dense_values(view: GraphView, lookup: Lookup, gathered: TensorRef) -> Optional[DenseValues]:
    """The parts of the SparseTensor of a lookup, with these values, if it is made of a matrix."""
    indices, shape = (_passed_on(view, lookup.given[name]) for name in ("indices", "dense_shape"))
    ops = (view.op(gathered.node), view.op(indices.node), view.op(shape.node))
    if ops != ("GatherNd", "Where", "Shape"):
        return None
    dense, places = (_passed_on(view, tensor) for tensor in view.inputs(gathered.node))
    present = view.inputs(indices.node)[0]
    if places != indices or view.op(present.node) != "NotEqual":
        return None
    left, ignored = view.inputs(present.node)
    read = (_passed_on(view, left), _passed_on(view, view.inputs(shape.node)[0]))
    if any(tensor != dense for tensor in read) or len(view.shape(dense) or ()) != _MATRIX:
        return None
    if any(view.controls(each.node) for each in (gathered, indices, present, shape)):
        return None  # The lookup would not wait for what they wait for.
    return DenseValues(dense, gathered, present, ignored)


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
