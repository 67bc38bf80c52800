"""Layers over columns of which some are repeated: the repeated ones are multiplied once.

    [user, item] W + b       ->  item W[item] + (user[0] W[user] + b)
    [h, q, h - q, h * q] W   ->  q N + (h[0] (W[0] + W[2]) + b),  N = W[1] - W[2] + h[0] * W[3]

With h [rows, places, columns], N has a block of columns for each place. One op computes N and what
is added, the item's product is TensorFlow's. Bias and activation come before its result is cut into
places, so that TensorFlow computes them with the product.

If layers follow at each place, an op of ours computes them with the first one: between them are
rows * places * columns numbers, which then stay in the caches.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.rewrite import OUTPUT_SHAPES
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import NodeWriter, Operand
from graph_opt.passes.repeated_rows.classify import Classifier
from graph_opt.passes.repeated_rows.following_layers import (
    FollowingLayer,
    FollowingLayers,
    LayerEnd,
)
from graph_opt.passes.repeated_rows.linear_parts import LinearPart, LinearParts
from graph_opt.passes.repeated_rows.row_rules import FIRST_ROW_LAYER, LAYERS_AT_PLACES

_FLOATS = (tf.float32.as_datatype_enum, tf.float64.as_datatype_enum)
_AT_PLACES = frozenset(["Identity", "Relu", "Sigmoid"])  # what LayersAtPlaces activates with
_MOST_COLUMNS = 128  # of layers whose results stay in a core's first cache
_CPU = "/device:CPU:0"


class _Layer(NamedTuple):
    """A product of joined columns, and what follows it.

    Attributes:
      product: The MatMul.
      parts: The columns.
      places: How many places each row has; None for a matrix.
      weights: The second operand.
      width: Its columns.
      end: Its bias and activation.
      following: Layers that LayersAtPlaces computes with it.
    """

    product: str
    parts: Sequence[LinearPart]
    places: Optional[int]
    weights: TensorRef
    width: int
    end: LayerEnd
    following: Sequence[FollowingLayer] = ()

    @property
    def result(self) -> TensorRef:
        """The tensor that is replaced."""
        return self.following[-1].end.result if self.following else self.end.result


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
        self._behind = FollowingLayers(view, classifier, frozenset(fetched))
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
        end = self._behind.end(TensorRef(name, 0), width, places)
        layer = _Layer(name, parts, places, weights, width, end)
        return layer._replace(following=self._following(layer))

    def _following(self, layer: _Layer) -> List[FollowingLayer]:
        """The layers behind one that LayersAtPlaces can compute with it."""
        found: List[FollowingLayer] = []
        if layer.places is None or self._view.dtype(layer.weights) != _FLOATS[0]:
            return found
        width, end = layer.width, layer.end
        while self._activation(end) in _AT_PLACES and width <= _MOST_COLUMNS:
            following = self._behind.after(end.result, width, layer.places)
            if following is None or following.width > _MOST_COLUMNS:
                break
            width, end = following.width, following.end
            if self._activation(end) not in _AT_PLACES:
                end = end._replace(activation=None, result=end.sum)
                found.append(following._replace(end=end))
                break
            found.append(following)
        return found

    def _activation(self, end: LayerEnd) -> str:
        return "Identity" if end.activation is None else self._view.op(end.activation)

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

    def _written(self, layer: _Layer) -> Tensor:
        written = _Written(self._view, self._writer, layer)
        if layer.following:
            ends = [layer.end, *(each.end for each in layer.following)]
            result = written.layers_at_places([self._activation(end) for end in ends])
            if len(ends[-1].sizes) > 1:
                return result
            return written.reshaped(result, [-1, *ends[-1].sizes], "result")
        result = written.product()
        if layer.end.activation is not None:
            node = self._view.nodes[layer.end.activation]
            attributes = {key: value for key, value in node.attr.items() if key != OUTPUT_SHAPES}
            suffix = layer.product + "/activation"
            self._writer.node(suffix, node.op, [result], node.device, **attributes)
            result = Tensor(self._writer.name(suffix), result.dtype)
        if layer.places is None:
            return result
        return written.reshaped(result, [-1, *layer.end.sizes], "result")


class _Written:
    """Writes the nodes of one layer."""

    def __init__(self, view: GraphView, writer: NodeWriter, layer: _Layer) -> None:
        self._writer = writer
        self._layer = layer
        self._device = view.device(layer.product)
        bases = [part.base for part in layer.parts if part.base is not None]
        self._bases = list(dict.fromkeys(bases))

    def product(self) -> Tensor:
        """The product of what varies, and what is added to it."""
        layer = self._layer
        matrix, added = self._first_row_layer()
        made = self._call("MatMul", a=self._left(), b=matrix)
        if layer.end.bias is None and all(part.offset is None for part in layer.parts):
            return made
        return self._call("BiasAdd", value=made, bias=added)

    def layers_at_places(self, activations: Sequence[str]) -> Tensor:
        """The result of the last layer, [rows, places, columns], with all before it in one op."""
        layer = self._layer
        matrix, added = self._first_row_layer()
        call = self._writer.call(
            self._suffix("layers"),
            LAYERS_AT_PLACES,
            _CPU,
            output_shapes=[(None, layer.places, layer.following[-1].width)],
            bases=self._left(),
            matrix=matrix,
            added=added,
            weights=[each.weights for each in layer.following],
            biases=[self._bias(each) for each in layer.following],
            places=layer.places,
            activations=list(activations),
        )
        return call.result

    def _bias(self, following: FollowingLayer) -> Operand:
        if following.end.bias is not None:
            return following.end.bias
        suffix = self._suffix("no_bias_{}".format(self._layer.following.index(following)))
        return self._writer.constant(suffix, np.zeros(following.width, np.float32), self._device)

    def _left(self) -> Operand:
        """What varies, [rows, columns]."""
        flat = [self._flat(base) for base in self._bases]
        if len(flat) == 1:
            return flat[0]
        return self._writer.joined(self._suffix("bases"), flat, 1, self._device)

    def _first_row_layer(self) -> Tuple[Tensor, Tensor]:
        """What is multiplied with the bases, and what is added to the product."""
        layer, parts = self._layer, self._layer.parts
        tensors = [each for part in parts for each in (part.scale, part.offset) if each is not None]
        repeated, bases = list(dict.fromkeys(tensors)), self._bases
        places, rows = layer.places or 1, sum(self._width_of(base) for base in bases)
        call = self._writer.call(
            self._suffix("weights"),
            FIRST_ROW_LAYER,
            _CPU,
            output_shapes=[(rows, places * layer.width), (places * layer.width,)],
            weights=layer.weights,
            bias=[] if layer.end.bias is None else [layer.end.bias],
            repeated=list(repeated),
            places=places,
            widths=[part.width for part in parts],
            bases=[_place(part.base, bases) for part in parts],
            signs=[part.sign for part in parts],
            scales=[_place(part.scale, repeated) for part in parts],
            offsets=[_place(part.offset, repeated) for part in parts],
            offset_signs=[part.offset_sign for part in parts],
        )
        return call.output("matrix"), call.output("added")

    def _flat(self, base: TensorRef) -> Operand:
        if self._layer.places is None:
            return base
        number = self._bases.index(base)
        return self.reshaped(base, [-1, self._width_of(base)], "base_{}".format(number))

    def _width_of(self, base: TensorRef) -> int:
        return next(part.width for part in self._layer.parts if part.base == base)

    def reshaped(self, tensor: Operand, shape: Sequence[int], what: str) -> Tensor:
        """A tensor in another shape."""
        suffix = self._suffix(what)
        target = self._writer.constant(suffix + "/shape", np.array(shape, np.int32), self._device)
        call = self._writer.call(suffix, "Reshape", self._device, tensor=tensor, shape=target)
        return call.result

    def _call(self, op: str, **arguments: Any) -> Tensor:
        suffix = self._suffix(op.lower())
        return self._writer.call(suffix, op, self._device, **arguments).result

    def _suffix(self, what: str) -> str:
        return "{}/{}".format(self._layer.product, what)


def _place(tensor: Optional[TensorRef], tensors: Sequence[TensorRef]) -> int:
    return -1 if tensor is None else tensors.index(tensor)


def _is_less(parts: Sequence[LinearPart], places: Optional[int]) -> bool:
    """Whether less is multiplied than the joined columns have."""
    bases = {part.base for part in parts if part.base is not None}
    if not bases:
        return False
    if places is not None:
        return len(bases) == 1 and any(part.scale is not None for part in parts)
    return len(bases) < len(parts)
