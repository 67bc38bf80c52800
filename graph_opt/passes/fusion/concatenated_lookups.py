"""Pooled rows that are only used concatenated: the fused op writes them side by side at once.

    forward    pooled_i -> [Reshape] -> ConcatV2(axis 1)            input_layer of feature columns
    backward   gradient of the ConcatV2 -> SplitV | Slice -> [Reshape] -> gradient of pooled_i

The columns of the ConcatV2 that lookups fill become one output, and its gradient one input: no
copy in either direction, and one tensor for the whole group where a stage's boundary is crossed.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.candidates import Member, is_flattened


class Concatenation(NamedTuple):
    """Lookups that are adjacent inputs of one ConcatV2.

    Attributes:
      node: The ConcatV2.
      first: Number of its input that is the first of the lookups; the others follow it.
      inputs: Number of lookups.
      lookups: Names of the lookups' results, in order.
      columns: First column of each lookup, counted from the first lookup's, in order.
      width: Columns of all lookups together.
      offset: Columns of the ConcatV2 before the first lookup's.
      nodes: The reshapes between the lookups and the ConcatV2.
    """

    node: str
    first: int
    inputs: int
    lookups: Tuple[str, ...]
    columns: Tuple[int, ...]
    width: int
    offset: int
    nodes: Tuple[str, ...]


class JoinedGradient(NamedTuple):
    """The gradient of a ConcatV2's result, and the nodes that split it."""

    tensor: TensorRef
    nodes: Tuple[str, ...]


def split_by_concatenation(
    view: GraphView, members: Sequence[Member], taken: AbstractSet[str]
) -> List[Tuple[Tuple[Member, ...], Optional[Concatenation]]]:
    """Splits a group into the lookups that each ConcatV2 joins, in its order, and the rest.

    If the lookups form several runs of a ConcatV2's inputs, the longest run is chosen.

    Args:
      view: The graph.
      members: The group.
      taken: ConcatV2 nodes that have been replaced already.
    """
    places: Dict[str, Dict[int, Tuple[Member, Tuple[str, ...]]]] = {}
    for member in members:
        found = _input_of_concatenation(view, member)
        if found is not None and found[0][0] not in taken:
            use, nodes = found
            places.setdefault(use[0], {})[use[1]] = (member, nodes)
    parts: List[Tuple[Tuple[Member, ...], Optional[Concatenation]]] = []
    joined: Set[str] = set()
    for node, inputs in places.items():
        run = max(_runs(sorted(inputs)), key=len)
        concatenation = _concatenation(view, node, [inputs[slot] for slot in run], run[0])
        if len(run) > 1 and concatenation is not None:
            parts.append((tuple(inputs[slot][0] for slot in run), concatenation))
            joined.update(concatenation.lookups)
    rest = tuple(member for member in members if member.candidate.name not in joined)
    return parts + ([(rest, None)] if rest else [])


def joined_gradient(
    view: GraphView, members: Sequence[Member], concatenation: Concatenation
) -> Optional[JoinedGradient]:
    """The gradient of the ConcatV2's result, if these gradients are its pieces, in order."""
    nodes: Dict[str, None] = {}
    joined: Dict[TensorRef, None] = {}
    for number, member in enumerate(members):
        if member.gradient is None:
            return None
        piece = _piece(view, member.gradient.pooled, concatenation.first + number, concatenation)
        if piece is None:
            return None
        joined[piece.tensor] = None
        nodes.update(dict.fromkeys(piece.nodes))
    if len(joined) != 1:
        return None
    return JoinedGradient(next(iter(joined)), tuple(nodes))


def _input_of_concatenation(
    view: GraphView, member: Member
) -> Optional[Tuple[Tuple[str, int], Tuple[str, ...]]]:
    """(ConcatV2, input) that is the lookup's only reader, and the reshapes in between."""
    lookup = member.candidate.lookup
    if is_flattened(view, member.candidate):
        return None
    width = _width(member)
    tensor = lookup.output
    nodes: List[str] = []
    for _ in range(3):
        if not _is_matrix(view, tensor, width):
            return None
        reader = _forward_reader(view, tensor)
        if reader is None:
            return None
        name, slot = reader
        if view.op(name) == "ConcatV2":
            return ((name, slot), tuple(nodes)) if _joins_columns(view, name) else None
        if view.op(name) not in ("Reshape", "Identity") or view.controls(name):
            return None
        nodes.append(name)
        tensor = TensorRef(name, 0)
    return None


def _forward_reader(view: GraphView, tensor: TensorRef) -> Optional[Tuple[str, int]]:
    """The only edge that reads the tensor's values, if there is just one."""
    readers = [
        (use.consumer, use.slot)
        for use in view.uses(tensor)
        if view.op(use.consumer) not in ("Shape", "ShapeN", "Size", "Rank", "ZerosLike")
    ]
    return readers[0] if len(readers) == 1 else None


def _joins_columns(view: GraphView, node: str) -> bool:
    axis = view.constant(view.inputs(node)[-1])
    return axis is not None and int(axis) in (1, -1)


def _is_matrix(view: GraphView, tensor: TensorRef, width: int) -> bool:
    """Whether the tensor is [B, width]; a reshaped lookup of this width has the same B."""
    shape = view.shape(tensor)
    return shape is not None and len(shape) == 2 and shape[1] == width


def _concatenation(
    view: GraphView, node: str, run: Sequence[Tuple[Member, Tuple[str, ...]]], first: int
) -> Optional[Concatenation]:
    dtypes = {member.candidate.lookup.tables[0].dtype for member, _ in run}
    before = [view.shape(tensor) for tensor in view.inputs(node)[:first]]
    known = all(shape is not None and len(shape) == 2 and shape[1] for shape in before)
    if len(dtypes) > 1 or not known:
        return None
    columns, width = [], 0
    for member, _ in run:
        columns.append(width)
        width += _width(member)
    return Concatenation(
        node=node,
        first=first,
        inputs=len(run),
        lookups=tuple(member.candidate.name for member, _ in run),
        columns=tuple(columns),
        width=width,
        offset=sum(shape[1] or 0 for shape in before if shape is not None),
        nodes=tuple(name for _, nodes in run for name in nodes),
    )


def _piece(
    view: GraphView, gradient: TensorRef, number: int, concatenation: Concatenation
) -> Optional[JoinedGradient]:
    """The gradient that piece `number` was split from."""
    nodes: List[str] = []
    tensor = gradient
    while view.op(tensor.node) in ("Identity", "Reshape"):
        nodes.append(tensor.node)
        tensor = view.inputs(tensor.node)[0]
    cutter = tensor.node
    count = len(view.inputs(concatenation.node)) - 1
    if view.op(cutter) == "SplitV":
        pieces = view.attribute(cutter, "num_split")
        whole = pieces is not None and pieces.i == count
        of_columns = _is_axis_of(view, view.inputs(cutter)[2], concatenation)
        if tensor.index != number or not whole or not of_columns:
            return None
    elif view.op(cutter) == "Slice":
        begin = view.inputs(cutter)[1]
        if view.op(begin.node) != "ConcatOffset" or begin.index != number:
            return None
        if len(view.inputs(begin.node)) - 1 != count:
            return None
    else:
        return None
    if not _is_gradient_of(view, view.inputs(cutter)[0], concatenation):
        return None
    return JoinedGradient(view.inputs(cutter)[0], (*nodes, cutter))


def _is_axis_of(view: GraphView, axis: TensorRef, concatenation: Concatenation) -> bool:
    """Whether an axis is 1: a constant, or the ConcatV2's own axis made positive."""
    if view.op(axis.node) == "FloorMod":
        axis = view.inputs(axis.node)[0]
        return axis == view.inputs(concatenation.node)[-1]
    value = view.constant(axis)
    return value is not None and int(value) in (1, -1)


def _is_gradient_of(view: GraphView, tensor: TensorRef, concatenation: Concatenation) -> bool:
    """Whether the tensor has as many columns as the ConcatV2's result."""
    joined = view.shape(TensorRef(concatenation.node, 0))
    shape = view.shape(tensor)
    if joined is None or shape is None or len(shape) != 2 or len(joined) != 2:
        return False
    return shape[1] is not None and shape[1] == joined[1]


def _runs(numbers: Sequence[int]) -> List[List[int]]:
    """Splits ascending numbers into runs without gaps."""
    runs: List[List[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _width(member: Member) -> int:
    shape = member.candidate.lookup.tables[0].shape
    assert shape is not None and shape[1] is not None
    return int(shape[1])
