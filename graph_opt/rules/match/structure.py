"""Reads a known structure node by node and refuses at the first node that is not as expected.

A pass that replaces many ops by one must know that they compute the same. Moving a lookup takes
less: what is only moved need not be understood.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef

_DIFFERS = "lookup_differs"
_DEEPEST_EXPRESSION = 8
# Ops that pass a single number on, with the values that their other input may have.
_SAME_NUMBER: Dict[str, List[Any]] = {
    "Cast": [],
    "ExpandDims": [0],
    "Pack": [],
    "Reshape": [[], [1], [-1]],
}


class Structure:
    """Reads one structure of a graph.

    Args:
      view: The graph.

    Attributes:
      view: The graph.
      seen: The nodes of the structure read so far, without constants.
    """

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self.seen: Dict[str, None] = {}

    def inputs(self, tensor: TensorRef, *ops: str, index: int = 0) -> Tuple[TensorRef, ...]:
        """Data inputs of the node of `tensor`, which must be output `index` of one of these ops.

        Raises:
          Refusal: lookup_differs.
        """
        op = self.view.op(tensor.node)
        need = "output {} of {}".format(index, " or ".join(ops))
        self.require(op in ops and tensor.index == index, tensor, need)
        self.seen[tensor.node] = None
        return self.view.inputs(tensor.node)

    def is_made_by(self, tensor: TensorRef, *ops: str) -> bool:
        """Whether the tensor is the first output of one of these ops."""
        return tensor.index == 0 and self.view.op(tensor.node) in ops

    def through(self, tensor: TensorRef, *ops: str) -> TensorRef:
        """Follows first inputs upstream as long as one of these ops makes the tensor."""
        while self.is_made_by(tensor, *ops):
            tensor = self.inputs(tensor, *ops)[0]
        return tensor

    def require(self, holds: bool, at: TensorRef, need: str, saw: Optional[str] = None) -> None:
        """Refuses unless `holds`.

        Args:
          holds: Whether the structure is as required here.
          at: Where.
          need: What is required.
          saw: What was there instead; the op and output number by default.

        Raises:
          Refusal: lookup_differs.
        """
        if not holds:
            saw = saw or "output {} of {}".format(at.index, self.view.op(at.node))
            raise Refusal(_DIFFERS, at=at.node, need=need, saw=saw)

    def require_same(self, tensor: TensorRef, wanted: TensorRef, reader: str) -> None:
        """Refuses unless `reader` reads the tensor that it must."""
        at = TensorRef(reader, 0)
        self.require(tensor == wanted, at, "input {}".format(wanted), str(tensor))

    def require_constant(self, tensor: TensorRef, wanted: Any) -> None:
        """Refuses unless the tensor is a constant with this value."""
        value = self.view.constant(tensor)
        holds = value is not None and np.array_equal(value, np.asarray(wanted))
        need = "a constant {}".format(wanted)
        self.require(holds, tensor, need, None if value is None else str(value))

    def require_attributes(self, name: str, **wanted: int) -> None:
        """Refuses unless the node's integer attributes have these values; unset means 0."""
        for key, number in wanted.items():
            value = self.view.attribute(name, key)
            found = 0 if value is None else value.i
            need = "{} {}".format(key, number)
            self.require(found == number, TensorRef(name, 0), need, str(found))

    def integer(self, tensor: TensorRef) -> Optional[int]:
        """Value of an expression of single-element integer constants, or None."""
        return integer_of(self.view, tensor)


def integer_of(
    view: GraphView, tensor: TensorRef, deepest: int = _DEEPEST_EXPRESSION
) -> Optional[int]:
    """Value of an expression of single-element integer constants, or None.

    Args:
      view: The graph.
      tensor: The expression's result.
      deepest: Maximum nesting depth of its operations.
    """
    value = view.constant(tensor)
    if value is not None:
        return int(value.reshape(-1)[0]) if value.size == 1 and value.dtype.kind == "i" else None
    op = view.op(tensor.node)
    if deepest == 0:
        return None
    if op in _SAME_NUMBER:
        number, *rest = view.inputs(tensor.node)
        dims = [view.constant(dim) for dim in rest]
        if all(dim is not None and dim.tolist() in _SAME_NUMBER[op] for dim in dims):
            return integer_of(view, number, deepest - 1)
        return None
    if op == "Rank":
        shape = view.shape(view.inputs(tensor.node)[0])
        return None if shape is None else len(shape)
    if op not in _ARITHMETIC:
        return None
    left, right = (integer_of(view, source, deepest - 1) for source in view.inputs(tensor.node)[:2])
    return None if left is None or right is None else _ARITHMETIC[op](left, right)


_ARITHMETIC: Dict[str, Any] = {
    "Add": lambda left, right: left + right,
    "AddV2": lambda left, right: left + right,
    "Sub": lambda left, right: left - right,
    "FloorDiv": lambda left, right: left // right if right else None,
    "FloorMod": lambda left, right: left % right if right else None,
}
