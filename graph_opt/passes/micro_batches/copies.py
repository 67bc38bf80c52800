"""Writes the copies of nodes for micro-batches, and what divides and joins their tensors.

    batch -> SplitV -> Identity -> copy 0 -> gradient 0 ---+
                    -> Identity -> copy 1 -> gradient 1 ---+ AddV2 -> update

The Identity of micro-batch 1 waits for gradient 0, so that what copy 0 needed is freed before. Only
what updates need reads the new nodes.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import value_dtype
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.micro_batches.call import DIVIDED, NUMBERS, WHOLE, Use
from graph_opt.passes.micro_batches.classify import COPIED, EARLY, Classifier, Node
from graph_opt.passes.micro_batches.row_parts import MakesOnce, RowParts, sizes
from graph_opt.passes.micro_batches.values import Value
from graph_opt.passes.node_writer import NodeWriter

_INT32 = tf.int32.as_datatype_enum
_FLOAT32 = tf.float32.as_datatype_enum
_SHAPES = "_output_shapes"
_CLASS = "_class"
DIVIDED_BATCH = "_divided_by_graph_opt"
"""Marks what waits for all of a micro-batch."""
_DIVIDES: Dict[str, Any] = {DIVIDED_BATCH: True}


class Copies(MakesOnce):
    """Writes what is asked for, once each.

    Args:
      view: The graph.
      classifier: What is known of its nodes.
      number: How many micro-batches there are.
      scope: Name scope of all new nodes.

    Attributes:
      writer: Has the nodes.
      copied: How many nodes of the graph have copies.
    """

    def __init__(self, view: GraphView, classifier: Classifier, number: int, scope: str) -> None:
        super().__init__()
        self._view = view
        self._classifier = classifier
        self._number = number
        self.writer = NodeWriter(view, scope, "")
        self._copies: Dict[Tuple[str, int], str] = {}
        self._parts = RowParts(view, self.writer, number, self.early)
        self._ends: List[Dict[str, None]] = [{} for _ in range(number)]
        self.copied: Dict[str, None] = {}

    def joined(self, tensor: TensorRef, ends_turn: bool = False) -> Tensor:
        """What stands for a copied tensor once all micro-batches are computed.

        Args:
          tensor: The tensor.
          ends_turn: Whether the next micro-batch waits for this one's.
        """
        value = self._value(tensor)
        if self._is_early(tensor):
            return self.early(tensor)
        if value.shared:
            return self._copy_of(tensor, 0)
        if value.total:
            parts = self._sums(tensor)
        elif value.rows is not None:
            parts = [self._copy_of(tensor, place) for place in range(self._number)]
        else:
            raise Refusal(
                "rows_mixed", at=tensor.node, need="a shape of which only the rows' number is open",
                saw="other sizes that each step computes",
            )  # fmt: skip
        if ends_turn:
            for place, part in enumerate(parts):
                self._ends[place][part.ref.node] = None
        if value.total:
            return parts[-1]
        return self.once(("joined", tensor), lambda: self._concatenated(tensor, value, parts))

    def waits(self, name: str, ends_turn: bool = False) -> List[str]:
        """The nodes to wait for in place of a copied one."""
        found = [self._copy(name, place) for place in range(self._number)]
        if ends_turn:
            for place, node in enumerate(found):
                self._ends[place][node] = None
        return found

    def early(self, tensor: TensorRef) -> Tensor:
        """The value of a tensor for the whole batch, computed before all micro-batches."""
        return self._output(self.early_node(tensor.node), tensor)

    def early_node(self, name: str) -> str:
        """The node that computes it."""
        if not self._node(name).cloned:
            return name
        return self.once(("early", name), lambda: self._early_clone(name))

    def clone(self, name: str, inputs: Sequence[str]) -> str:
        """A copy of a node that is computed once, from what all micro-batches computed."""
        return self._clone(self._view.nodes[name], "results/" + name, inputs)

    def finish(self) -> None:
        """Makes each micro-batch wait for what the one before it computes."""
        for place, ends in enumerate(self._ends[:-1]):
            if place + 1 < self._number:
                self.writer.call("done/{}".format(place), "NoOp", waits_for=[*ends], **_DIVIDES)
        for place, gate in self._parts.gates:
            if place:
                gate.input.append("^" + self.writer.name("done/{}".format(place - 1)))

    def _node(self, name: str) -> Node:
        return self._classifier.nodes[name]

    def _value(self, tensor: TensorRef) -> Value:
        return self._node(tensor.node).outputs[tensor.index]

    def _dtype(self, tensor: TensorRef) -> int:
        return value_dtype(self._view.dtype(tensor) or _FLOAT32)

    def _output(self, name: str, tensor: TensorRef) -> Tensor:
        """The output of a node that stands for a tensor."""
        return Tensor(TensorRef(name, tensor.index).input_name, self._dtype(tensor))

    def _copy_of(self, tensor: TensorRef, place: int) -> Tensor:
        """A micro-batch's own tensor."""
        value = self._value(tensor)
        if self._node(tensor.node).state == EARLY:
            if value.rows is None:
                return self.early(tensor)
            return self._parts.part(tensor, value.rows, place)
        copy = self._output(self._copy(tensor.node, place), tensor)
        weighted = self._node(tensor.node).weighted
        return copy if weighted is None else self._parts.share(tensor, weighted, copy, place)

    def _copy(self, name: str, place: int) -> str:
        """The copy of a node, after those of all that it needs: chains may be deep."""
        stack = [name]
        while stack:
            one = stack[-1]
            if (one, place) in self._copies:
                stack.pop()
                continue
            before = self._copied_before(one)
            missing = [each for each in before if (each, place) not in self._copies]
            stack.extend(missing)
            if not missing:
                self._copies[one, place] = self._write(one, place)
        return self._copies[name, place]

    def _copied_before(self, name: str) -> List[str]:
        uses = self._node(name).uses or {}
        read = [
            tensor.node
            for slot, tensor in enumerate(self._view.inputs(name))
            if uses[slot].kind not in (WHOLE, DIVIDED, NUMBERS)
        ]
        before = read + self._classifier.waits_for(name)
        return [each for each in before if self._node(each).state == COPIED]

    def _write(self, name: str, place: int) -> str:
        node, original = self._node(name), self._view.nodes[name]
        uses = node.uses or {}
        inputs: List[str] = [
            self._input(tensor, uses[slot], (name, slot), place)
            for slot, tensor in enumerate(self._view.inputs(name))
        ]
        for each in self._classifier.waits_for(name):
            is_copied = self._node(each).state == COPIED
            inputs.append("^" + (self._copy(each, place) if is_copied else self.early_node(each)))
        self.copied[name] = None
        return self._clone(original, "{}/{}".format(place, name), inputs)

    def _input(self, tensor: TensorRef, use: Use, reader: Tuple[str, int], place: int) -> Tensor:
        if use.kind == WHOLE:
            return self.early(tensor)
        if use.kind == NUMBERS:
            return self._numbers(tensor, use, reader, place)
        if use.kind == DIVIDED:
            assert use.rows is not None
            return self._parts.part(tensor, use.rows, place)
        return self._copy_of(tensor, place)

    def _clone(self, original: Any, suffix: str, inputs: Sequence[str]) -> str:
        attributes = {key: value for key, value in original.attr.items() if key != _SHAPES}
        node = self.writer.node(suffix, original.op, inputs, original.device, **attributes)
        if _CLASS in node.attr:
            groups = node.attr[_CLASS].list.s
            groups[:] = [each for each in groups if not self._is_copied(each)]
            if not groups:
                del node.attr[_CLASS]
        return str(node.name)

    def _is_copied(self, group: bytes) -> bool:
        name = group.decode("utf-8").partition("@")[2]
        return name in self._classifier.nodes and self._node(name).state != EARLY

    def _early_clone(self, name: str) -> str:
        node, original = self._node(name), self._view.nodes[name]
        tensors = self._view.inputs(name)
        if original.op in ("Shape", "ShapeN", "Size", "ZerosLike", "OnesLike"):
            if not all(self._is_early(tensor) for tensor in tensors):
                return self._early_shape(name, original)
        assert node.early
        inputs: List[str] = [self.early(tensor) for tensor in tensors]
        inputs += ["^" + self.early_node(each) for each in self._classifier.waits_for(name)]
        return self._clone(original, "early/" + name, inputs)

    def _is_early(self, tensor: TensorRef) -> bool:
        return self._node(tensor.node).early and self._value(tensor).early

    def _early_shape(self, name: str, original: Any) -> str:
        """What a node that reads only the shape of a tensor gives, without that tensor."""
        dtype = original.attr["out_type"].type if "out_type" in original.attr else _INT32
        shapes = [
            self._early_dimensions(tensor, "early/{}/{}".format(name, slot), dtype)
            for slot, tensor in enumerate(self._view.inputs(name))
        ]
        op, suffix, device = original.op, "early/" + name, original.device
        if op == "Shape":
            return shapes[0].ref.node
        if op == "ShapeN":
            return self.writer.call(suffix, "IdentityN", input=shapes).name
        if op == "Size":
            axis = self.writer.constant(suffix + "/axis", np.int32(0), device)
            return self.writer.call(
                suffix, "Prod", device, input=shapes[0], reduction_indices=axis
            ).name
        one = tf.as_dtype(self._dtype(TensorRef(name, 0))).as_numpy_dtype(op == "OnesLike")
        value = self.writer.constant(suffix + "/value", one, device)
        return self.writer.call(suffix, "Fill", device, dims=shapes[0], value=value).name

    def _early_dimensions(self, tensor: TensorRef, suffix: str, dtype: int) -> Tensor:
        """The shape of a tensor with rows, all other sizes of which are known."""
        rows, shape = self._value(tensor).rows, self._view.shape(tensor)
        assert shape is not None
        known = [0 if size is None else size for size in shape]
        numpy = tf.as_dtype(dtype).as_numpy_dtype
        if rows is None:
            return self.writer.constant(suffix, np.array(known, numpy))
        count = self._parts.row_count(rows.rows)
        parts = []
        for axis, size in enumerate(known):
            at = "{}/{}".format(suffix, axis)
            if axis == rows.axis:
                parts.append(self._parts.times(count, rows.times or 1, at))
            else:
                parts.append(self.writer.constant(at, np.int32(size)))
        packed = self.writer.call(suffix + "/shape", "Pack", values=parts)
        return self._parts.cast(packed.result, dtype, suffix + "/cast")

    def _numbers(self, tensor: TensorRef, use: Use, reader: Tuple[str, int], place: int) -> Tensor:
        """A constant of a shape with a micro-batch's own number of rows in it."""
        value = self._view.constant(tensor)
        assert value is not None
        changed = value.copy()
        for at, count in use.places:
            static = count.rows.static
            assert static is not None and count.times is not None
            changed.reshape(-1)[at] = sizes(static, self._number)[place] * count.times
        suffix = "{}/{}/input_{}".format(place, *reader)
        key = ("numbers", reader, place)
        device = self._view.device(reader[0])
        return self.once(key, lambda: self.writer.constant(suffix, changed, device))

    def _sums(self, tensor: TensorRef) -> List[Tensor]:
        """The sums of the first micro-batch, of the first two, and so on."""
        found: List[Tensor] = []
        for place in range(self._number):
            part = self._copy_of(tensor, place)
            found.append(self._sum(tensor, found[-1], part, place) if found else part)
        return found

    def _sum(self, tensor: TensorRef, before: Tensor, part: Tensor, place: int) -> Tensor:
        suffix = "{}/sum_of/{}/{}".format(place, tensor.node, tensor.index)
        key, device = ("sum", tensor, place), self._view.device(tensor.node)
        return self.once(
            key, lambda: self.writer.call(suffix, "AddV2", device, x=before, y=part).result
        )

    def _concatenated(self, tensor: TensorRef, value: Value, parts: Sequence[Tensor]) -> Tensor:
        assert value.rows is not None
        suffix = "joined/{}/{}".format(tensor.node, tensor.index)
        return self.writer.joined(suffix, parts, value.rows.axis, self._view.device(tensor.node))
