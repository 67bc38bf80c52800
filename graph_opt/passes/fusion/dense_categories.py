"""Computes ids of dense strings without SparseTensors, in graphs that serve.

    before   strings [B, k] ─ NotEqual, Where, GatherNd, Shape ─ hash ─ ids, indices, dense_shape
    after    strings [B, k] ─┬─ hash ──────┐
                             └─ NotEqual ─ SelectV2(hash or -1) ─ ids [B, k]

A column drops empty strings and then computes an id of each one that is left. Here ids of all are
computed, and -1 stands for those that are dropped: of strings that are hashed, by one op for all
columns (`hashed_strings.py`). That is written as columns make a SparseTensor of dense ids, of which
a fused lookup takes the dense ids (`rules/dense_bags.py`).
"""

from __future__ import annotations

from typing import Dict, Optional, Set, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import OUTPUT_SHAPES
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.dead_nodes import dead_nodes
from graph_opt.passes.fusion.hashed_strings import hash_together
from graph_opt.passes.node_writer import NodeWriter, free_scope, tensor_of
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.tables import counted
from graph_opt.rules.dense_bags import DenseCategories, find_dense_categories
from graph_opt.rules.find import find_lookups
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.lookup_inputs import SPARSE, lookup_inputs

_SCOPE = "dense_ids"
_PARTS = ("ids", "indices", "dense_shape")


def dense_categories(state: PassState, options: SessionOptions) -> PassState:
    """Has lookups of a graph that serves take dense ids where columns have dense values."""
    if not options.served or options.group_embedding is None:
        return state
    view = state.view
    scope = free_scope(view, _SCOPE)
    found = [
        (lookup, column)
        for lookup in find_lookups(view).lookups
        for column in [find_dense_categories(view, lookup) if _is_plain(view, lookup) else None]
        if column is not None
    ]
    if not found:
        return state
    hashed = hash_together(view, scope, [column for _, column in found], options.served)
    nodes = hashed.nodes
    made: Dict[Tuple[TensorRef, ...], Dict[str, Tensor]] = {}
    left: Set[str] = set()
    edits = Edits(view)
    for lookup, column in found:
        key = tuple(lookup.given[part] for part in _PARTS)
        if key not in made:
            device = view.device(column.values.present.node)
            writer = NodeWriter(view, "{}/{}".format(scope, len(made)), device)
            made[key] = _parts(view, column, writer, hashed.ids.get(column.ids))
            nodes += writer.nodes
        for part, tensor in made[key].items():
            uses = view.uses(lookup.given[part])
            edits.move([use for use in uses if use.consumer in lookup.nodes], tensor)
        left.update([*column.nodes, *(tensor.node for tensor in (*key, column.values.gathered))])
    told = "ids of {} computed of dense values".format(counted(len(found), "lookup"))
    state = state.rewritten(edits.rewrite(nodes)).reporting(told)
    return state.without(dead_nodes(state.view, left))


def _is_plain(view: GraphView, lookup: Lookup) -> bool:
    """Whether a fused op can do a lookup, of a SparseTensor and without weights."""
    if not all(part in lookup.given for part in _PARTS) or lookup.tables[0].is_dynamic:
        return False
    try:
        inputs = lookup_inputs(view, lookup)
    except Refusal:
        return False
    return inputs.layout == SPARSE and inputs.weights is None


def _parts(
    view: GraphView, column: DenseCategories, writer: NodeWriter, ids: Optional[Tensor]
) -> Dict[str, Tensor]:
    """Writes a SparseTensor of the ids that are there, of those of all values if they are given."""
    shape = view.shape(column.values.dense)
    dtype = tensor_of(view, column.ids).dtype
    none = writer.constant("none", np.array(-1, tf.as_dtype(dtype).as_numpy_dtype))
    if ids is None:
        ids = _ids(view, column, writer, none)
    there = writer.call("there", "NotEqual", x=ids, y=none, output_shapes=[shape]).result
    indices = writer.call("indices", "Where", input=there).result
    return {
        "ids": writer.call("values", "GatherNd", params=ids, indices=indices).result,
        "indices": indices,
        "dense_shape": writer.call(
            "shape", "Shape", input=ids, out_type=tf.int64.as_datatype_enum
        ).result,
    }


def _ids(view: GraphView, column: DenseCategories, writer: NodeWriter, none: Tensor) -> Tensor:
    """Writes the ids of all values, `none` for those that are dropped."""
    copies = {str(column.values.gathered): column.values.dense.input_name}
    for name in column.nodes:
        copies.update(_copy(view, name, writer, copies))
    return writer.call(
        "ids",
        "SelectV2",
        condition=column.values.present,
        t=Tensor(copies[str(column.ids)], none.dtype),
        e=none,
        output_shapes=[view.shape(column.values.dense)],
    ).result


def _copy(view: GraphView, name: str, writer: NodeWriter, copies: Dict[str, str]) -> Dict[str, str]:
    """Writes a node for dense values; returns what its results are called."""
    node = tf.NodeDef()
    node.CopyFrom(view.nodes[name])
    node.name = writer.name(name)
    for slot, tensor in enumerate(view.inputs(name)):
        node.input[slot] = copies.get(str(tensor), node.input[slot])
    for key in (OUTPUT_SHAPES, "_class"):
        node.attr.pop(key, None)
    writer.nodes.append(node)
    return {str(TensorRef(name, 0)): node.name}
