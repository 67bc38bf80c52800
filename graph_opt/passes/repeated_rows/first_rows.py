"""Writes what is computed from the first row of repeated inputs, and repeats it for all rows.

input -> check ──┐
input -> [0:1] <─┘ -> copies of what is computed once -> Tile to the rows of the input -> readers
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.rewrite import OUTPUT_SHAPES
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.micro_batches.values import Rows
from graph_opt.passes.node_writer import NodeWriter, tensor_of
from graph_opt.passes.repeated_rows.classify import Classifier

_INT32 = tf.int32.as_datatype_enum
_CLASS = "_class"


class FirstRows:
    """Writes what is asked for, once each.

    Args:
      view: The graph.
      classifier: What is known of its nodes.
      first: Of each repeated input, its first row.
      writer: Where new nodes go.

    Attributes:
      copied: The nodes of the graph that have copies.
      repeated: The tensors that are repeated for all rows.
    """

    def __init__(
        self,
        view: GraphView,
        classifier: Classifier,
        first: Dict[TensorRef, Tensor],
        writer: NodeWriter,
    ) -> None:
        self._view = view
        self._classifier = classifier
        self._first = first
        self._writer = writer
        self._made: Dict[Tuple[Any, ...], Tensor] = {}
        self.copied: Dict[str, str] = {}
        self.repeated: List[TensorRef] = []

    def of(self, tensor: TensorRef) -> Tensor:
        """What a tensor is for a request that has the first row alone."""
        if tensor in self._first:
            return self._first[tensor]
        if not self._is_copied(tensor.node):
            return tensor_of(self._view, tensor)
        return tensor_of(self._view, tensor, self._copy(tensor.node))

    def for_all_rows(self, tensor: TensorRef) -> Optional[Tensor]:
        """A tensor as the whole request has it; None if it has no rows that could be repeated."""
        value, shape = self._classifier.value(tensor), self._classifier.shape(tensor)
        if value is None or shape is None or tensor in self._first:
            return None
        if value.shared:
            return self.of(tensor)
        if value.rows is None:
            return None
        key = "repeated", tensor
        if key not in self._made:
            self._made[key] = self._tile(tensor, value.rows, len(shape))
            self.repeated.append(tensor)
        return self._made[key]

    def whole_shape(self, name: str) -> Tensor:
        """What a `Shape` node gives for the whole request."""
        key = "shape", name
        if key not in self._made:
            self._made[key] = self._scaled_shape(name)
        return self._made[key]

    def _tile(self, tensor: TensorRef, rows: Rows, rank: int) -> Tensor:
        suffix = "all_rows/{}/{}".format(tensor.node, tensor.index)
        device = self._view.device(tensor.node)
        multiples = self._multiples(rows, rank)
        return self._writer.call(
            suffix, "Tile", device, input=self.of(tensor), multiples=multiples
        ).result

    def _scaled_shape(self, name: str) -> Tensor:
        (tensor,) = self._view.inputs(name)
        value, shape = self._classifier.value(tensor), self._classifier.shape(tensor)
        assert value is not None and value.rows is not None and shape is not None
        result = self.of(TensorRef(name, 0))
        multiples = self._multiples(value.rows, len(shape))
        suffix = "all_rows/" + name
        if result.dtype != _INT32:
            multiples = self._writer.call(
                suffix + "/cast", "Cast", x=multiples, DstT=result.dtype
            ).result
        return self._writer.call(suffix, "Mul", x=result, y=multiples).result

    def _multiples(self, rows: Rows, rank: int) -> Tensor:
        """How often a tensor of the first row is repeated along each axis."""
        origin = self._classifier.origin(rows)
        key = "multiples", origin, rows.axis, rank
        if key not in self._made:
            suffix = "rows_of/{}/{}/{}_{}".format(origin.node, origin.index, rows.axis, rank)
            parts: List[Any] = [self._one()] * rank
            parts[rows.axis] = self.row_count(origin)
            self._made[key] = self._writer.call(suffix, "Pack", values=parts).result
        return self._made[key]

    def row_count(self, source: TensorRef) -> Tensor:
        """How many rows an input has in a request."""
        key = "rows", source
        if key not in self._made:
            suffix = "rows_of/{}/{}".format(source.node, source.index)
            shape = self._writer.call(suffix + "/shape", "Shape", input=source).result
            places = [self._constant("first", [0]), self._constant("second", [1])]
            self._made[key] = self._writer.call(
                suffix,
                "StridedSlice",
                input=shape,
                begin=places[0],
                end=places[1],
                strides=places[1],
                shrink_axis_mask=1,
            ).result
        return self._made[key]

    def _one(self) -> Tensor:
        return self._constant("one", 1)

    def _constant(self, suffix: str, value: Any) -> Tensor:
        key = "constant", suffix
        if key not in self._made:
            self._made[key] = self._writer.constant(suffix, np.array(value, np.int32))
        return self._made[key]

    def _is_copied(self, name: str) -> bool:
        known = self._classifier.nodes.get(name)
        return known is not None and known.is_once

    def _copy(self, name: str) -> str:
        """The copy of a node, after those of all that it needs: chains may be deep."""
        stack = [name]
        while stack:
            one = stack[-1]
            tensors = [each for each in self._view.inputs(one) if each not in self._first]
            missing = [
                each.node
                for each in tensors
                if each.node not in self.copied and self._is_copied(each.node)
            ]
            stack.extend(missing)
            if not missing:
                stack.pop()
                if one not in self.copied:
                    self.copied[one] = self._write(one)
        return self.copied[name]

    def _write(self, name: str) -> str:
        original = self._view.nodes[name]
        inputs: Sequence[str] = [self.of(tensor) for tensor in self._view.inputs(name)]
        waits = ["^" + each for each in self._view.controls(name)]
        attributes = {key: value for key, value in original.attr.items() if key != OUTPUT_SHAPES}
        node = self._writer.node(
            "first_row/" + name, original.op, [*inputs, *waits], original.device, **attributes
        )
        if _CLASS in node.attr:
            groups = node.attr[_CLASS].list.s
            groups[:] = [each for each in groups if not self._is_copied(_node_of(each))]
            if not groups:
                del node.attr[_CLASS]
        return str(node.name)


def _node_of(group: bytes) -> str:
    """The node that a colocation group names."""
    return group.decode("utf-8").partition("@")[2]
