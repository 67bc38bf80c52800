"""What is known of shapes before a step runs, and of what is computed from them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.passes.micro_batches import elementwise, reductions
from graph_opt.passes.micro_batches.shape_numbers import MOST_ELEMENTS, NotKnown, evaluate
from graph_opt.passes.micro_batches.values import Count, Value, array_of

SHAPES = frozenset(["Shape", "ShapeN", "Size", "Rank"])
"""Ops that read nothing but a shape."""
_INTEGERS = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)


class KnownShapes:
    """Answers questions about one graph, in which rows of a batch are divided.

    Args:
      view: The graph.
      value: Returns what is known of a tensor; None if nothing is.
      given: The elements of tensors that are shapes, although no op says so.
    """

    def __init__(
        self,
        view: GraphView,
        value: Callable[[TensorRef], Optional[Value]],
        given: Optional[Mapping[TensorRef, Any]] = None,
    ) -> None:
        self._view = view
        self._value = value
        self._numbers: Dict[TensorRef, Optional[Any]] = dict(given or {})
        self._shapes: Dict[TensorRef, Shape] = {}

    def shape(self, tensor: TensorRef) -> Shape:
        """The static shape of a tensor; what TensorFlow leaves open may follow from numbers."""
        found = self._view.shape(tensor)
        if found is None and tensor.index == 0:
            if tensor not in self._shapes:
                self._shapes[tensor] = None
                self._shapes[tensor] = self._inferred(tensor.node)
            found = self._shapes[tensor]
        return found

    def _inferred(self, name: str) -> Shape:
        view, op, inputs = self._view, self._view.op(name), self._view.inputs(name)
        if op == "Reshape":
            target = self.numbers(inputs[1])
            sizes = [] if target is None else target.reshape(-1)
            known = [one if isinstance(one, int) and one >= 0 else None for one in sizes]
            return None if target is None else tuple(known)
        shapes = [self.shape(each) for each in inputs]
        if op in reductions.REDUCTIONS and shapes[0] is not None:
            axes, rank = self.numbers(inputs[1]), len(shapes[0])
            kept = view.attribute(name, "keep_dims")
            if axes is None or any(not isinstance(axis, int) for axis in axes.flat):
                return None
            summed = {axis % rank for axis in axes.flat}
            if kept is not None and kept.b:
                return tuple(1 if at in summed else size for at, size in enumerate(shapes[0]))
            return tuple(size for at, size in enumerate(shapes[0]) if at not in summed)
        if op in elementwise.ELEMENTWISE and None not in shapes:
            rank = max(len(shape or ()) for shape in shapes)
            full = [shape for shape in shapes if len(shape or ()) == rank]
            return full[0] if len(full) == len(shapes) == 1 else (None,) * rank
        return None

    def numbers(self, tensor: TensorRef) -> Optional[Any]:
        """The elements of a tensor, if it is a shape or computed from shapes."""
        if tensor not in self._numbers:
            self._numbers[tensor] = None
            dtype = self._view.dtype(tensor)
            if dtype in _INTEGERS or self._view.op(tensor.node) == "Cast":
                self._numbers.update(self._all_numbers(tensor.node))
        return self._numbers[tensor]

    def _all_numbers(self, name: str) -> Dict[TensorRef, Any]:
        view, op = self._view, self._view.op(name)
        if op == "Const":
            value = view.constant(TensorRef(name, 0))
            known = value is not None and value.size <= MOST_ELEMENTS
            return {TensorRef(name, 0): _integers(value)} if known else {}
        if op in SHAPES:
            shapes = [self._shape(tensor) for tensor in view.inputs(name)]
            outputs: Optional[List[Any]] = _of_shapes(op, shapes)
        else:
            inputs = [self.numbers(tensor) for tensor in view.inputs(name)]
            if not inputs or any(one is None for one in inputs):
                return {}
            try:
                outputs = evaluate(op, inputs, lambda key: view.attribute(name, key))
            except NotKnown:
                return {}
        return {TensorRef(name, index): found for index, found in enumerate(outputs or ())}

    def _shape(self, tensor: TensorRef) -> Optional[Any]:
        shape, value = self.shape(tensor), self._value(tensor)
        if shape is None or value is None:
            return None
        found = array_of(list(shape))
        if value.rows is not None:
            found[value.rows.axis] = Count(value.rows.rows, value.rows.times)
        return found


def _integers(value: Any) -> Any:
    """The elements of a constant as Python's integers; None if they are none."""
    if value.dtype.kind not in "iub":
        return None
    found = np.empty(value.shape, dtype=object)
    for place in np.ndindex(*value.shape):
        found[place] = int(value[place])
    return found


def _of_shapes(op: str, shapes: List[Optional[Any]]) -> List[Any]:
    if op in ("Shape", "ShapeN"):
        return shapes
    if shapes[0] is None:
        return []
    if op == "Rank":
        return [np.array(shapes[0].size, dtype=object)]
    try:
        return evaluate("Prod", [shapes[0], np.array([0], dtype=object)], lambda key: None) or []
    except NotKnown:
        return []
