"""What TensorFlow does not run as it is written: what it computes once, and what only passes on."""

from __future__ import annotations

from typing import FrozenSet, Sequence, Set

from graph_opt.compat.op_definitions import is_registered, is_stateful, may_call_functions
from graph_opt.graph.control_flow_ops import CONTROL_FLOW
from graph_opt.graph.view import GraphView, TensorRef

_SHAPES = frozenset(["Shape", "ShapeN", "Size", "Rank"])
# Larger constants are not kept.
_NOT_FOLDED = CONTROL_FLOW | {"PlaceholderWithDefault"}


def folded_nodes(view: GraphView, order: Sequence[str]) -> FrozenSet[str]:
    """Nodes that have the same value in every step, by static shapes and constants alone.

    Args:
      view: A graph with static shapes.
      order: Its nodes, each after its inputs.
    """
    folded: Set[str] = set()
    for name in order:
        op = view.op(name)
        if op == "Const" or (op in _SHAPES and _is_shape_known(view, name)):
            folded.add(name)
            continue
        inputs = view.inputs(name)
        if inputs and all(tensor.node in folded for tensor in inputs) and _may_be_folded(op):
            folded.add(name)
    return frozenset(folded)


def origin(view: GraphView, tensor: TensorRef) -> TensorRef:
    """The tensor that another one merely passes on, or gives the shape that it has."""
    for _ in range(len(view)):
        op = view.op(tensor.node)
        inputs = view.inputs(tensor.node)
        if not inputs or not (op == "Identity" or _is_same_vector(view, tensor, op)):
            return tensor
        if view.device(inputs[0].node) != view.device(tensor.node):
            return tensor
        tensor = inputs[0]
    return tensor


def _is_same_vector(view: GraphView, tensor: TensorRef, op: str) -> bool:
    if op != "Reshape":
        return False
    shapes = view.shape(tensor), view.shape(view.inputs(tensor.node)[0])
    return all(shape is not None and len(shape) == 1 for shape in shapes)


def _is_shape_known(view: GraphView, name: str) -> bool:
    shapes = [view.shape(tensor) for tensor in view.inputs(name)]
    return all(shape is not None and None not in shape for shape in shapes)


def _may_be_folded(op: str) -> bool:
    if op in _NOT_FOLDED or op.startswith(("Placeholder", "Random", "Variable")):
        return False
    return is_registered(op) and not is_stateful(op) and not may_call_functions(op)
