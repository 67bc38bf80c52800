"""Layers over columns of which some are repeated: the repeated ones are multiplied once.

    [user, item] W + b       ->  item W[item] + (user[0] W[user] + b)
    [h, q, h - q, h * q] W   ->  q N + (h[0] (W[0] + W[2]) + b),  N = W[1] - W[2] + h[0] * W[3]

With h [rows, places, columns], N has a block of columns for each place. Bias and activation come
before its result is cut into places, so that TensorFlow computes them with the product.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.rewrite import OUTPUT_SHAPES
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.passes.node_writer import NodeWriter, Operand
from graph_opt.passes.repeated_rows.classify import Classifier
from graph_opt.passes.repeated_rows.linear_parts import LinearPart, LinearParts
from graph_opt.passes.repeated_rows.single_rows import first_row, row_matrix

_FLOATS = (tf.float32.as_datatype_enum, tf.float64.as_datatype_enum)
_ACTIVATIONS = frozenset(
    ["Elu", "LeakyRelu", "Relu", "Relu6", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh"]
)
_ADDS = frozenset(["Add", "AddV2", "BiasAdd"])


class _Layer(NamedTuple):
    """A product of joined columns, and what follows it.

    Attributes:
      product: The MatMul.
      parts: The columns.
      places: How many places each row has; None for a matrix.
      weights: The second operand.
      width: Its columns.
      bias: What is added; None for nothing.
      activation: The node that comes then; None for none.
      result: The last tensor of these.
    """

    product: str
    parts: Sequence[LinearPart]
    places: Optional[int]
    weights: TensorRef
    width: int
    bias: Optional[TensorRef]
    activation: Optional[str]
    result: TensorRef


class JoinedProducts:
    """Finds them, and writes what replaces them.

    Args:
      view: The graph.
      classifier: What is known of its nodes.
      writer: Where new nodes go.
      edits: Where edges are moved.
      fetched: Nodes that requests fetch.
    """

    def __init__(
        self,
        view: GraphView,
        classifier: Classifier,
        writer: NodeWriter,
        edits: Edits,
        fetched: Sequence[str],
    ) -> None:
        self._view = view
        self._classifier = classifier
        self._writer = writer
        self._edits = edits
        self._fetched = frozenset(fetched)
        self._parts = LinearParts(view, classifier)

    def replace(self) -> Dict[TensorRef, Tensor]:
        """Replaces all of them; returns what stands for their results."""
        replaced: Dict[TensorRef, Tensor] = {}
        for name in self._view.of_op("MatMul"):
            layer = self._layer(name)
            if layer is not None:
                replaced[layer.result] = self._written(layer)
                self._edits.replace(layer.result, replaced[layer.result])
        return replaced

    def _layer(self, name: str) -> Optional[_Layer]:
        view, classifier = self._view, self._classifier
        left, weights = view.inputs(name)
        known, shape = classifier.nodes.get(name), classifier.shape(weights)
        flipped = [view.attribute(name, key) for key in ("transpose_a", "transpose_b")]
        if known is None or known.is_once or view.dtype(left) not in _FLOATS:
            return None
        if any(key is not None and key.b for key in flipped) or view.controls(name):
            return None
        value = classifier.value(weights)
        if value is None or not value.shared or shape is None or None in shape:
            return None
        found = self._columns(left)
        if found is None:
            return None
        parts, places = found
        if sum(part.width for part in parts) != shape[0] or not _is_less(parts, places):
            return None
        width = shape[1] or 0
        bias, activation, result = self._after(TensorRef(name, 0), width, places)
        return _Layer(name, parts, places, weights, width, bias, activation, result)

    def _columns(self, tensor: TensorRef) -> Optional[Tuple[List[LinearPart], Optional[int]]]:
        """The parts of the first operand, and how many places its rows are cut from."""
        view, classifier = self._view, self._classifier
        while view.op(tensor.node) in ("Identity", "Reshape", "Transpose"):
            source = view.inputs(tensor.node)[0]
            if view.controls(tensor.node) or not self._passes_on(tensor, source):
                return None
            tensor = source
        shape = classifier.shape(tensor)
        if view.op(tensor.node) != "ConcatV2" or not shape or view.controls(tensor.node):
            return None
        *joined, axis = view.inputs(tensor.node)
        along = view.constant(axis)
        if along is None or int(along) % len(shape) != len(shape) - 1 or len(shape) > 3:
            return None
        places = shape[1] if len(shape) == 3 else None
        if len(shape) == 3 and not places:
            return None
        parts = self._parts.of(tuple(joined), places)
        return (parts, places) if parts else None

    def _passes_on(self, tensor: TensorRef, source: TensorRef) -> bool:
        """Whether a tensor is another one whose places may have become rows."""
        classifier, op = self._classifier, self._view.op(tensor.node)
        before, after = classifier.shape(source), classifier.shape(tensor)
        if before is None or after is None:
            return False
        if op == "Transpose":
            order = classifier.numbers(self._view.inputs(tensor.node)[1])
            return order is not None and list(order) == list(range(len(before)))
        value = classifier.value(tensor)
        rows = None if value is None else value.rows
        if op == "Identity" or rows is None or rows.axis or before[-1] is None:
            return op == "Identity"
        width = before[-1]
        places = before[1] if len(before) == 3 else 1
        target = classifier.numbers(self._view.inputs(tensor.node)[1])
        last = None if target is None or not target.size else target.reshape(-1)[-1]
        return width in (last, after[-1]) and rows.times in (places, 1)

    def _after(
        self, product: TensorRef, width: int, places: Optional[int]
    ) -> Tuple[Optional[TensorRef], Optional[str], TensorRef]:
        """The bias, the activation and the last tensor of a layer."""
        view = self._view
        bias, result = None, product
        use = self._only_use(result)
        while use is not None and view.op(use.consumer) in ("Reshape", "Identity"):
            if use.slot or not self._keeps_columns(TensorRef(use.consumer, 0), width, places):
                return None, None, result
            result = TensorRef(use.consumer, 0)
            use = self._only_use(result)
        if use is not None and view.op(use.consumer) in _ADDS and use.slot == 0:
            added = view.inputs(use.consumer)[1]
            value = self._classifier.value(added)
            if value is not None and value.shared and self._classifier.shape(added) == (width,):
                bias, result = added, TensorRef(use.consumer, 0)
                use = self._only_use(result)
        if use is not None and view.op(use.consumer) in _ACTIVATIONS:
            return bias, use.consumer, TensorRef(use.consumer, 0)
        return bias, None, result

    def _keeps_columns(self, tensor: TensorRef, width: int, places: Optional[int]) -> bool:
        """Whether a Reshape of a product gives rows, or rows and places, of as many columns."""
        shape = self._classifier.shape(tensor)
        return shape is not None and shape[1:] in ((width,), (places, width))

    def _only_use(self, tensor: TensorRef) -> Optional[Use]:
        uses = self._view.uses(tensor)
        if len(uses) != 1 or tensor.node in self._fetched:
            return None
        waits = [*self._view.controls(uses[0].consumer), *self._view.control_uses(tensor.node)]
        return None if waits else uses[0]

    def _written(self, layer: _Layer) -> Tensor:
        written = _Written(self._view, self._writer, layer)
        result = written.product()
        if layer.activation is not None:
            node = self._view.nodes[layer.activation]
            attributes = {key: value for key, value in node.attr.items() if key != OUTPUT_SHAPES}
            suffix = layer.product + "/activation"
            self._writer.node(suffix, node.op, [result], node.device, **attributes)
            result = Tensor(self._writer.name(suffix), result.dtype)
        shape = self._classifier.shape(layer.result)
        if layer.places is None or shape is None:
            return result
        return written.reshaped(result, [-1, *[size or 0 for size in shape[1:]]], "result")


class _Written:
    """Writes the nodes of one layer."""

    def __init__(self, view: GraphView, writer: NodeWriter, layer: _Layer) -> None:
        self._writer = writer
        self._layer = layer
        self._device = view.device(layer.product)
        self._numbers: Dict[str, int] = {}
        self._begins = np.cumsum([0, *[part.width for part in layer.parts]])

    def product(self) -> Tensor:
        """The product of what varies, and what is added to it."""
        bases = list(dict.fromkeys(p.base for p in self._layer.parts if p.base is not None))
        matrices = [self._matrix(base) for base in bases]
        flat = [self._flat(base) for base in bases]
        left = flat[0] if len(flat) == 1 else self._join("bases", flat, 1)
        right = matrices[0] if len(matrices) == 1 else self._join("matrices", matrices, 0)
        made = self._call("MatMul", a=left, b=right)
        added = self._added()
        return made if added is None else self._call("BiasAdd", value=made, bias=added)

    def _flat(self, base: TensorRef) -> Operand:
        if self._layer.places is None:
            return base
        return self.reshaped(base, [-1, self._width_of(base)], "base")

    def _width_of(self, base: TensorRef) -> int:
        return next(part.width for part in self._layer.parts if part.base == base)

    def _matrix(self, base: TensorRef) -> Tensor:
        """What one varying tensor is multiplied by."""
        width, columns = self._width_of(base), self._layer.width
        places = self._layer.places
        terms: List[Tensor] = []
        for place, part in enumerate(self._layer.parts):
            if part.base != base:
                continue
            weights = self._weights([place], part.sign)
            if places is not None:
                weights = self.reshaped(weights, [width, 1, columns], "weights")
            if part.scale is not None:
                turned = self._call(
                    "Transpose", x=self._first(part.scale), perm=self._constant([1, 0])
                )
                if places is not None:
                    turned = self.reshaped(turned, [width, places, 1], "scale")
                weights = self._call("Mul", x=turned, y=weights)
            terms.append(weights)
        total = self._sum(terms)
        if places is None:
            return total
        return self.reshaped(total, [width, places * columns], "matrix")

    def _added(self) -> Optional[Tensor]:
        """What is added to each row of the product."""
        layer = self._layer
        offsets = [place for place, part in enumerate(layer.parts) if part.offset is not None]
        rows = layer.places or 1
        terms: List[Operand] = []
        if offsets:
            columns = [self._offset(place) for place in offsets]
            weights = [
                self._weights(run, layer.parts[run[0]].offset_sign) for run in self._runs(offsets)
            ]
            left = columns[0] if len(columns) == 1 else self._join("offsets", columns, -1)
            right = weights[0] if len(weights) == 1 else self._join("offset_weights", weights, 0)
            terms.append(self._call("MatMul", a=self._first(left), b=right))
        if layer.bias is not None:
            terms.append(layer.bias)
        if not terms:
            return None
        total = terms[0] if len(terms) == 1 else self._call("AddV2", x=terms[0], y=terms[1])
        if not offsets:
            total = self._for_places(total)
        return self.reshaped(total, [rows * layer.width], "added")

    def _for_places(self, bias: Operand) -> Operand:
        if self._layer.places is None:
            return bias
        multiples = self._constant([self._layer.places])
        return self._call("Tile", input=bias, multiples=multiples)

    def _offset(self, place: int) -> TensorRef:
        offset = self._layer.parts[place].offset
        assert offset is not None
        return offset

    def _runs(self, places: Sequence[int]) -> List[List[int]]:
        """Parts whose weights lie one after the other, and are added with one sign."""
        runs: List[List[int]] = []
        for place in places:
            sign = self._layer.parts[place].offset_sign
            last = runs[-1][-1] if runs else -1
            if runs and last == place - 1 and self._layer.parts[last].offset_sign == sign:
                runs[-1].append(place)
            else:
                runs.append([place])
        return runs

    def _weights(self, run: Sequence[int], sign: int) -> Tensor:
        """The rows of the weights that belong to parts that lie one after the other."""
        begin, end = int(self._begins[run[0]]), int(self._begins[run[-1] + 1])
        rows = self._call(
            "StridedSlice",
            input=self._layer.weights,
            begin=self._constant([begin]),
            end=self._constant([end]),
            strides=self._constant([1]),
        )
        return rows if sign > 0 else self._call("Neg", x=rows)

    def _first(self, tensor: Operand) -> Tensor:
        """A first row as a matrix, [1, columns] or [places, columns]; zeros if there is no row."""
        row = first_row(self._writer, self._suffix("first"), tensor, self._device)
        return row_matrix(self._writer, self._suffix("row"), row, self._layer.places is None)

    def _sum(self, terms: Sequence[Tensor]) -> Tensor:
        total = terms[0]
        for term in terms[1:]:
            total = self._call("AddV2", x=total, y=term)
        return total

    def _join(self, what: str, parts: Sequence[Operand], axis: int) -> Tensor:
        return self._writer.joined(self._suffix(what), parts, axis, self._device)

    def reshaped(self, tensor: Operand, shape: Sequence[int], what: str) -> Tensor:
        """A tensor in another shape."""
        suffix = self._suffix(what)
        target = self._writer.constant(suffix + "/shape", np.array(shape, np.int32), self._device)
        call = self._writer.call(suffix, "Reshape", self._device, tensor=tensor, shape=target)
        return call.result

    def _call(self, op: str, **arguments: Any) -> Tensor:
        suffix = self._suffix(op.lower())
        return self._writer.call(suffix, op, self._device, **arguments).result

    def _constant(self, value: Any) -> Tensor:
        return self._writer.constant(
            self._suffix("constant"), np.array(value, np.int32), self._device
        )

    def _suffix(self, what: str) -> str:
        number = self._numbers[what] = self._numbers.get(what, -1) + 1
        return "{}/{}_{}".format(self._layer.product, what, number)


def _is_less(parts: Sequence[LinearPart], places: Optional[int]) -> bool:
    """Whether less is multiplied than the joined columns have."""
    bases = {part.base for part in parts if part.base is not None}
    if not bases:
        return False
    if places is not None:
        return len(bases) == 1 and any(part.scale is not None for part in parts)
    return len(bases) < len(parts)
