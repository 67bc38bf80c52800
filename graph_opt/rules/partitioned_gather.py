"""Rows gathered shard by shard and stitched together, `mod` or `div`.

    ids -> Reshape -> FloorMod | (FloorDiv .. Maximum) -> [Cast] -> which shard
                   -> FloorDiv | Select --------------------------> row in the shard
    DynamicPartition(row in shard, which shard):k -> gather k -> [Identity]
    ParallelDynamicStitch(DynamicPartition(positions, which shard), gathers) -> Reshape

Sharding of a user's own (by a hash, say) is no such pattern: each shard is then a lookup.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import gather
from graph_opt.rules import lookup as words
from graph_opt.rules.forward import ForwardPart
from graph_opt.rules.lookup import Lookup

_STITCHES = frozenset(["ParallelDynamicStitch", "DynamicStitch"])
_LONGEST_IDENTITY_CHAIN = 3


class _Split(NamedTuple):
    strategy: str
    flat_ids: TensorRef
    nodes: Tuple[str, ...]


def grow(view: GraphView, forward: ForwardPart, lookup: Lookup) -> Optional[Lookup]:
    """The lookup of all shards, grown from that of any one of them."""
    stitch = _find_stitch(view, lookup.output)
    if stitch is None:
        return None
    inputs = view.inputs(stitch)
    count = len(inputs) // 2
    positions = _partition_of(view, inputs[:count])
    shards = [_shard(view, tensor) for tensor in inputs[count:]]
    found = [shard for shard in shards if shard is not None]
    if positions is None or len(found) != count:
        return None
    rows = _partition_of(view, [shard.ids[0] for shard in found])
    if rows is None or view.inputs(rows)[1] != view.inputs(positions)[1]:
        return None
    split = _find_split(view, rows)
    reshape = _find_reshape(view, TensorRef(stitch, 0))
    if split is None or reshape is None:
        return None
    return _joined(view, forward, found, split, (positions, rows, stitch, reshape))


def _joined(
    view: GraphView,
    forward: ForwardPart,
    shards: List[Lookup],
    split: _Split,
    spine: Tuple[str, str, str, str],
) -> Optional[Lookup]:
    ids, flatten = _ids_before_flattening(view, split.flat_ids)
    own = dict.fromkeys(name for shard in shards for name in shard.nodes)
    own.update(dict.fromkeys(split.nodes + flatten + spine))
    inner = [shard.output for shard in shards] + [TensorRef(spine[2], 0)]
    if not all(forward.stays_inside(tensor, own) for tensor in inner):
        return None
    tables = [dataclasses.replace(s.tables[0], partitions=len(shards)) for s in shards]
    return Lookup(
        api=words.EMBEDDING_LOOKUP,
        tables=tuple(tables),
        ids=(ids,),
        output=TensorRef(spine[3], 0),
        gathers=tuple(name for shard in shards for name in shard.gathers),
        nodes=tuple(own),
        partition_strategy=split.strategy,
    )


def _find_stitch(view: GraphView, rows: TensorRef) -> Optional[str]:
    for use in view.uses(rows):
        if view.op(use.consumer) in _STITCHES:
            return use.consumer
    return None


def _find_reshape(view: GraphView, stitched: TensorRef) -> Optional[str]:
    for use in view.uses(stitched):
        if view.op(use.consumer) == "Reshape" and use.slot == 0:
            return use.consumer
    return None


def _partition_of(view: GraphView, tensors: Sequence[TensorRef]) -> Optional[str]:
    """The DynamicPartition whose outputs these are, all of them and in order."""
    node = tensors[0].node
    if view.op(node) != "DynamicPartition" or view.nodes[node].attr["num_partitions"].i != len(
        tensors
    ):
        return None
    expected = [TensorRef(node, index) for index in range(len(tensors))]
    return node if list(tensors) == expected else None


def _shard(view: GraphView, tensor: TensorRef) -> Optional[Lookup]:
    """The gather of one shard, with the Identities between it and the stitch."""
    behind: List[str] = []
    name = tensor.node
    while view.op(name) == "Identity" and len(behind) < _LONGEST_IDENTITY_CHAIN:
        behind.append(name)
        name = view.inputs(name)[0].node
    if view.op(name) not in gather.STARTS:
        return None
    try:
        shard = gather.start(view, name)
    except Refusal:
        return None
    if shard is None:
        return None
    return shard.grown(tensor.node, tuple(reversed(behind)))


def _find_split(view: GraphView, rows: str) -> Optional[_Split]:
    """How ids are spread over shards, told by what computes the shard number."""
    nodes: Dict[str, None] = {}
    row, shard = view.inputs(rows)
    if view.op(shard.node) == "Cast":
        nodes[shard.node] = None
        shard = view.inputs(shard.node)[0]
    nodes.update({shard.node: None, row.node: None})
    op = view.op(shard.node)
    if op == "FloorMod" and view.op(row.node) == "FloorDiv":
        return _Split("mod", view.inputs(shard.node)[0], tuple(nodes))
    if op == "Maximum" and view.op(row.node) in ("Select", "SelectV2"):
        quotient = view.inputs(shard.node)[0]
        if view.op(quotient.node) == "FloorDiv":
            nodes[quotient.node] = None
            return _Split("div", view.inputs(quotient.node)[0], tuple(nodes))
    return None


def _ids_before_flattening(
    view: GraphView, flat_ids: TensorRef
) -> Tuple[TensorRef, Tuple[str, ...]]:
    if view.op(flat_ids.node) != "Reshape":
        return flat_ids, ()
    return view.inputs(flat_ids.node)[0], (flat_ids.node,)
