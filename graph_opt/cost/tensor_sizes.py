"""How large the tensors of a step are.

Static shapes tell most sizes. What they leave open is the number of rows in a batch and of ids,
which is followed from where it is known, or told, by one rule for each op (`length_rules`). A size
that no rule gives is not guessed: it is a `SizeUnknown`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

import numpy as np

from graph_opt.compat.op_definitions import dtype_size, value_dtype
from graph_opt.cost.assumptions import LENGTH, Assumptions
from graph_opt.cost.length_rules import RULES, like_inputs
from graph_opt.cost.looked_up_ids import LookedUpIds
from graph_opt.cost.stage_records import StageRecords
from graph_opt.cost.unknown import SizeUnknown
from graph_opt.graph.inlined_calls import RETURNED
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_nodes import BUFFER_TAKE

_DEEPEST = 60
_PASS_ON = frozenset(["Identity", "RefIdentity", "StopGradient", "PreventGradient", "Cast"])

Found = Union[float, SizeUnknown]


class TensorSizes:
    """Sizes of tensors, as far as they are known.

    Args:
      view: A graph with static shapes.
      ids: Which tensors have an element for each id.
      records: What the buffers of stages carry.
      assumptions: What is told about batches.

    Attributes:
      notes: What was assumed on the way, a line each.
    """

    def __init__(
        self, view: GraphView, ids: LookedUpIds, records: StageRecords, assumptions: Assumptions
    ) -> None:
        self.view = view
        self.ids = ids
        self.records = records
        self.assumptions = assumptions
        self.notes: Dict[str, None] = {}
        self._lengths: Dict[Tuple[TensorRef, int], Found] = {}
        self._depth = 0

    def follow(self, names: Sequence[str]) -> None:
        """Looks at nodes in the order of the graph, so that no search goes deep later."""
        for name in names:
            for index, shape in enumerate(self._shapes(name)):
                if shape and shape[0] is None:
                    self._remembered(TensorRef(name, index), 0)

    def bytes(self, tensor: TensorRef) -> float:
        """Bytes of a tensor's elements.

        Raises:
          SizeUnknown: A length is not known, or elements are of any size.
        """
        dtype = self.view.dtype(tensor)
        size = None if dtype is None else dtype_size(value_dtype(dtype))
        if size is None:
            what = "its op is not loaded" if dtype is None else "its elements are of any size"
            raise SizeUnknown(str(tensor), what, "")
        return size * self.elements(tensor)

    def elements(self, tensor: TensorRef) -> float:
        """The number of elements; raises `SizeUnknown`."""
        shape = self.view.shape(tensor)
        if shape is not None:
            count = 1.0
            for axis in range(len(shape)):
                count *= self.length(tensor, axis)
            return count
        op = self.view.op(tensor.node)
        if op in ("Reshape", RETURNED) or op in _PASS_ON:
            source = self.view.input(tensor.node, tensor.index if op == RETURNED else 0)
            if source is not None:
                return self._deeper(lambda: self.elements(source), tensor)
        if op == BUFFER_TAKE:
            put = self.records.put_input(tensor)
            if put is not None:
                return self._deeper(lambda: self.elements(put), tensor)
        return self.length(tensor, 0)

    def length(self, tensor: TensorRef, axis: int) -> float:
        """The size of a tensor along an axis; raises `SizeUnknown`."""
        shape = self.view.shape(tensor)
        if shape is not None and axis < len(shape) and shape[axis] is not None:
            return float(shape[axis] or 0)
        found = self._remembered(tensor, axis)
        if isinstance(found, SizeUnknown):
            raise found
        return found

    def value(self, tensor: TensorRef, place: int = 0) -> float:
        """Element `place` of a small tensor that is computed from shapes; raises `SizeUnknown`."""
        constant = self.view.constant(tensor)
        if constant is not None:
            return _element(tensor, constant, place)
        rule = _VALUES.get(self.view.op(tensor.node))
        if rule is None:
            raise self.unknown(tensor, "its value is not known before it runs")
        return self._deeper(lambda: rule(self, tensor, place), tensor)

    def unknown(self, tensor: TensorRef, why: str) -> SizeUnknown:
        """What to raise where a tensor's length is not known."""
        return SizeUnknown(str(tensor), why, "{} '{}=N'".format(LENGTH, tensor))

    def note(self, text: str) -> None:
        """Remembers what was assumed."""
        self.notes[text] = None

    def _remembered(self, tensor: TensorRef, axis: int) -> Found:
        key = tensor, axis
        if key not in self._lengths:
            try:
                self._lengths[key] = self._deeper(lambda: self._found(tensor, axis), tensor)
            except SizeUnknown as error:
                self._lengths[key] = error
        return self._lengths[key]

    def _found(self, tensor: TensorRef, axis: int) -> float:
        if axis == 0:
            told = self.assumptions.length_of(str(tensor))
            if told is not None:
                return told
        rule = RULES.get(self.view.op(tensor.node), like_inputs)
        return rule(self, tensor, axis)

    def _deeper(self, find: Callable[[], float], tensor: TensorRef) -> float:
        if self._depth >= _DEEPEST:
            raise self.unknown(tensor, "its size depends on itself, or on too many others")
        self._depth += 1
        try:
            return find()
        finally:
            self._depth -= 1

    def _shapes(self, name: str) -> Sequence[Optional[Tuple[Optional[int], ...]]]:
        given = self.view.attribute(name, "_output_shapes")
        count = 0 if given is None else len(given.list.shape)
        return [self.view.shape(TensorRef(name, index)) for index in range(count)]


def _element(tensor: TensorRef, constant: np.ndarray, place: int) -> float:
    flat = constant.reshape(-1)
    if not np.issubdtype(flat.dtype, np.number) or not flat.size:
        raise SizeUnknown(str(tensor), "it is no number", LENGTH)
    return float(flat[min(place, flat.size - 1)])


def _shape_entry(sizes: TensorSizes, tensor: TensorRef, place: int) -> float:
    return sizes.length(sizes.view.inputs(tensor.node)[0], place)


def _all_elements(sizes: TensorSizes, tensor: TensorRef, place: int) -> float:
    return sizes.elements(sizes.view.inputs(tensor.node)[0])


def _same(sizes: TensorSizes, tensor: TensorRef, place: int) -> float:
    return sizes.value(sizes.view.inputs(tensor.node)[0], place)


def _returned(sizes: TensorSizes, tensor: TensorRef, place: int) -> float:
    return sizes.value(sizes.view.inputs(tensor.node)[tensor.index], place)


def _slice(sizes: TensorSizes, tensor: TensorRef, place: int) -> float:
    source, begin = sizes.view.inputs(tensor.node)[:2]
    if _integer(sizes.view, tensor.node, "begin_mask") & 1:
        return sizes.value(source, place)
    return sizes.value(source, int(sizes.value(begin)) + place)


def _packed(sizes: TensorSizes, tensor: TensorRef, place: int) -> float:
    inputs = sizes.view.inputs(tensor.node)
    return sizes.value(inputs[min(place, len(inputs) - 1)])


def _gathered(sizes: TensorSizes, tensor: TensorRef, place: int) -> float:
    source, index = sizes.view.inputs(tensor.node)[:2]
    return sizes.value(source, int(sizes.value(index, place)))


def _taken(sizes: TensorSizes, tensor: TensorRef, place: int) -> float:
    put = sizes.records.put_input(tensor)
    if put is None:
        raise sizes.unknown(tensor, "its value is not known before it runs")
    return sizes.value(put, place)


def _quotient(sizes: TensorSizes, tensor: TensorRef, place: int) -> float:
    dividend, divisor = (sizes.value(one, place) for one in sizes.view.inputs(tensor.node)[:2])
    if not divisor:
        raise sizes.unknown(tensor, "it divides by zero")
    return dividend / divisor


def _product(sizes: TensorSizes, tensor: TensorRef, place: int) -> float:
    first, second = (sizes.value(one, place) for one in sizes.view.inputs(tensor.node)[:2])
    return first * second


def _integer(view: GraphView, name: str, key: str) -> int:
    found = view.attribute(name, key)
    return 0 if found is None else int(found.i)


_VALUES: Dict[str, Callable[[Any, TensorRef, int], float]] = {
    "Shape": _shape_entry,
    "Size": _all_elements,
    "Cast": _same,
    "Identity": _same,
    RETURNED: _returned,
    "Squeeze": _same,
    "ExpandDims": _same,
    "Reshape": _same,
    "StridedSlice": _slice,
    "Pack": _packed,
    "GatherV2": _gathered,
    BUFFER_TAKE: _taken,
    "FloorDiv": _quotient,
    "Mul": _product,
}
