"""What `safe_embedding_lookup_sparse` puts around `embedding_lookup_sparse`.

    before  values -> Identity -> GatherV2(valid) [-> GatherV2(positive weight)]
                   -> SparseFillEmptyRows:1 = ids, :2 = which rows were empty
    after   Select(Tile(Reshape(empty)), ZerosLike(combined), combined)    without default_id
                   -> Reshape(ConcatV2(Slice(dense shape), Slice(Shape(combined))))

Feature columns and layers put a Reshape of their own behind it, which stays outside.
"""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import lookup as words
from graph_opt.rules.forward import ForwardPart
from graph_opt.rules.lookup import Lookup

_FILLS = frozenset(["SparseFillEmptyRows", "RaggedFillEmptyRows"])
_SELECTS = frozenset(["Select", "SelectV2"])
_FILLED_VALUES = 1
_EMPTY_ROWS = 2
_LONGEST_PRUNING = 12


def grow(view: GraphView, forward: ForwardPart, lookup: Lookup) -> Optional[Lookup]:
    """The combined lookup of filled ids, up to the final Reshape."""
    ids = lookup.ids[0]
    filled = ids.index == _FILLED_VALUES and view.op(ids.node) in _FILLS
    if lookup.combiner is None or not filled:
        return None
    select = _find_select(view, lookup.output, ids.node)
    zeroed = TensorRef(select[-1], 0) if select else lookup.output
    reshape = _find_reshape(view, zeroed)
    own = select + ((reshape,) if reshape else ())
    if not own:
        return None
    inner = [lookup.output] + [TensorRef(name, 0) for name in own[:-1]]
    if not all(forward.stays_inside(tensor, own) for tensor in inner):
        return None
    values, pruning = _before_pruning(view, ids.node)
    return lookup.grown(
        own[-1],
        (ids.node, *pruning, *own),
        api=words.SAFE_EMBEDDING_LOOKUP_SPARSE,
        ids=(values,),
    )


def _find_select(view: GraphView, combined: TensorRef, fill: str) -> Tuple[str, ...]:
    """(Reshape, Tile, ZerosLike, Select) that zero rows without ids; () where there are none."""
    for use in view.uses(combined):
        name = use.consumer
        if use.slot != 2 or view.op(name) not in _SELECTS:
            continue
        condition, zeros, _ = view.inputs(name)
        nodes = _nodes_up_to(view, condition, TensorRef(fill, _EMPTY_ROWS))
        if nodes is not None and view.op(zeros.node) in ("ZerosLike", "Const", "Fill"):
            return (*nodes, zeros.node, name)
    return ()


def _nodes_up_to(
    view: GraphView, tensor: TensorRef, source: TensorRef
) -> Optional[Tuple[str, ...]]:
    """The Tile and Reshape between which rows were empty and the Select's condition."""
    nodes: Dict[str, None] = {}
    while tensor != source:
        if view.op(tensor.node) not in ("Tile", "Reshape", "ExpandDims", "BroadcastTo"):
            return None
        nodes[tensor.node] = None
        tensor = view.inputs(tensor.node)[0]
    return tuple(reversed(list(nodes)))


def _find_reshape(view: GraphView, combined: TensorRef) -> Optional[str]:
    """The Reshape whose shape joins a slice of the ids' and one of the result's own."""
    for use in view.uses(combined):
        name = use.consumer
        if use.slot != 0 or view.op(name) != "Reshape":
            continue
        shape = view.inputs(name)[1].node
        if view.op(shape) != "ConcatV2":
            continue
        parts = [tensor.node for tensor in view.inputs(shape)[:2]]
        if all(view.op(part) == "Slice" for part in parts) and _shape_of(view, parts[1], combined):
            return name
    return None


def _shape_of(view: GraphView, part: str, combined: TensorRef) -> bool:
    """Whether a Slice cuts the shape of the combined rows (a Const where it is static)."""
    shape = view.inputs(part)[0].node
    return view.op(shape) == "Const" or view.inputs(shape)[:1] == (combined,)


def _before_pruning(view: GraphView, fill: str) -> Tuple[TensorRef, Tuple[str, ...]]:
    """The values of the SparseTensor that was pruned and filled, and the nodes in between."""
    nodes: Dict[str, None] = {}
    tensor = view.inputs(fill)[1]
    while len(nodes) < _LONGEST_PRUNING and _prunes(view, tensor.node):
        nodes[tensor.node] = None
        tensor = view.inputs(tensor.node)[0]
    return tensor, tuple(nodes)


def _prunes(view: GraphView, name: str) -> bool:
    if view.op(name) == "Identity":
        return True
    if view.op(name) not in ("Gather", "GatherV2"):
        return False
    chosen = view.inputs(name)[1].node
    return view.op(chosen) == "Reshape" and view.op(view.inputs(chosen)[0].node) == "Where"
