"""Hashes the dense strings of all columns that the same requests need by one op.

strings [B] ─── ExpandDims ─┬─ hash ───────┐
                            └─ NotEqual ─ SelectV2(hash or -1) ─ ids [B, 1]    each

strings [B], strings [B, k], ... ── GroupHashBuckets ── ids [B, 1], ids [B, k], ...
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Hashable, List, NamedTuple, Sequence

from graph_opt.graph.op_call import Tensor
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.control_flow import depths
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.dense_bags import DenseCategories

_HASH = "StringToHashBucketFast"


class HashedStrings(NamedTuple):
    """What is hashed together.

    Attributes:
      ids: Of all values, -1 for empty ones, by the ids of those that are not empty.
      nodes: The ops.
    """

    ids: Dict[TensorRef, Tensor]
    nodes: List[Any]


def hash_together(
    view: GraphView,
    scope: str,
    columns: Sequence[DenseCategories],
    served: Sequence[AbstractSet[str]],
) -> HashedStrings:
    """Writes the ops that hash the strings of columns.

    Args:
      view: A graph that serves.
      scope: Name scope of the ops.
      columns: What is computed of dense values; those that are not hashed strings are left.
      served: What each kind of request fetches: who needs one column has to have fed the others.
    """
    hashed = {each.ids: each for each in columns if _is_hashed(view, each)}
    hashes = {ids.node for ids in hashed}
    needed = [view.ancestors(fetches) for fetches in served]
    branches = depths(view)
    groups: Dict[Hashable, List[DenseCategories]] = {}
    for ids, column in hashed.items():
        if branches[ids.node] or not hashes.isdisjoint(view.ancestors([column.values.dense.node])):
            continue
        requests = tuple(ids.node in nodes for nodes in needed)
        groups.setdefault((view.device(ids.node), requests), []).append(column)
    found: Dict[TensorRef, Tensor] = {}
    writer = NodeWriter(view, scope, "")
    for number, group in enumerate(groups.values()):
        call = writer.call(
            "hashed_{}".format(number),
            "GroupHashBuckets",
            view.device(group[0].ids.node),
            output_shapes=[view.shape(column.values.dense) for column in group],
            values=[_before_expansion(view, column.values.dense) for column in group],
            num_buckets=[_num_buckets(view, column) for column in group],
        )
        found.update(zip((column.ids for column in group), call.outputs("buckets")))
    return HashedStrings(found, writer.nodes)


def _is_hashed(view: GraphView, column: DenseCategories) -> bool:
    """Whether strings that are not empty are hashed, and nothing else is done with them."""
    ignored = view.constant(column.values.ignored)
    is_empty = ignored is not None and ignored.shape == () and ignored.item() in (b"", "")
    return is_empty and [view.op(name) for name in column.nodes] == [_HASH]


def _num_buckets(view: GraphView, column: DenseCategories) -> int:
    return int(view.nodes[column.ids.node].attr["num_buckets"].i)


def _before_expansion(view: GraphView, tensor: TensorRef) -> TensorRef:
    """The vector of which a tensor is the only column; the tensor itself if it is no such one."""
    if view.op(tensor.node) != "ExpandDims" or view.controls(tensor.node):
        return tensor
    source, axis = view.inputs(tensor.node)
    along = view.constant(axis)
    is_last = along is not None and int(along.reshape(-1)[0]) in (1, -1)
    return source if is_last else tensor
