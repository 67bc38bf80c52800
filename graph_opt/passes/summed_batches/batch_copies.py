"""Writes the copies of a batch's part for further batches, and sums what updates take.

    pull 0 -> layers -> gradient ------------------+
    pull 1 -> copies -> gradient -> AddV2(0, 1) ---+ AddV2 -> update
    pull 2 -> copies -> gradient ------------------+

The nodes that there are compute the first batch, for steps that do not train, too.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Sequence

from graph_opt.compat.stateful_ops import RANDOM
from graph_opt.graph.control_flow_ops import ENTERS
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.passes.node_writer import NodeWriter, tensor_of
from graph_opt.passes.summed_batches.batch_part import BatchPart
from graph_opt.passes.summed_batches.gradients import Gradient
from graph_opt.rules.optimizers.update_inputs import ANY_LENGTH

_FRAME = "frame_name"
_CLASS = "_class"
# Marks what takes the place of a gradient.
SUMMED = "_summed_by_graph_opt"
_SUM: Dict[str, Any] = {SUMMED: True}
_OF_ANY_LENGTH: Dict[str, Any] = {ANY_LENGTH: True}


class BatchCopies:
    """Writes them.

    Args:
      view: The graph.
      part: What is computed for each batch.
      number: The number of batches.
      pulled: For each batch but the first, the tensors that stand for the sources'.
      writer: Gets the nodes.
    """

    def __init__(
        self,
        view: GraphView,
        part: BatchPart,
        number: int,
        pulled: Sequence[Mapping[TensorRef, str]],
        writer: NodeWriter,
    ) -> None:
        self._view = view
        self._part = part
        self._inside = frozenset(part.nodes)
        self._number = number
        self._pulled = pulled
        self._writer = writer

    def write(self) -> None:
        """Writes the copies."""
        for place in range(1, self._number):
            for name in self._part.nodes:
                self._copy(name, place)

    def sum(self, gradient: Gradient, edits: Edits) -> None:
        """Writes the sum of a gradient over batches, or its slices; moves the update to it."""
        parts = [self._of(gradient.tensor, place) for place in range(self._number)]
        total = self._join(gradient.tensor, parts) if gradient.joined else None
        if total is None:
            total = self._add(gradient.tensor, parts)
        edits.move(gradient.uses, total)

    def wait(self, updates: Iterable[str], edits: Edits) -> None:
        """Has what updates wait for, such as the decay of weights, wait for all batches."""
        before = self._view.ancestors(updates)
        for name in self._part.nodes:
            for user in self._view.control_uses(name):
                if user in before and user not in self._part.needed:
                    for place in range(1, self._number):
                        edits.wait(user, self._name(name, place))

    def _copy(self, name: str, place: int) -> None:
        view, original = self._view, self._view.nodes[name]
        inputs: List[str] = [self._of(tensor, place) for tensor in view.inputs(name)]
        inputs += ["^" + self._waited(each, place) for each in view.controls(name)]
        node = self._writer.node(
            "{}/{}".format(place, name), original.op, inputs, original.device, **original.attr
        )
        if _FRAME in node.attr and original.op in ENTERS:
            node.attr[_FRAME].s += "/{}/{}".format(self._writer.scope, place).encode()
        seeds = [node.attr[key].i for key in ("seed", "seed2") if key in node.attr]
        if original.op in RANDOM and any(seeds):
            # Otherwise all batches would draw the same numbers.
            node.attr["seed2"].i += place
        if _CLASS in node.attr:
            groups = node.attr[_CLASS].list.s
            groups[:] = [self._group(each, place) for each in groups]

    def _group(self, group: bytes, place: int) -> bytes:
        prefix, _, name = group.decode().partition("@")
        return "{}@{}".format(prefix, self._name(name, place)).encode()

    def _of(self, tensor: TensorRef, place: int) -> Tensor:
        """A tensor of one of the batches."""
        text = TensorRef(self._name(tensor.node, place), tensor.index).input_name
        if place:
            text = self._pulled[place - 1].get(tensor, text)
        return Tensor(text, tensor_of(self._view, tensor).dtype)

    def _waited(self, name: str, place: int) -> str:
        if name in self._part.sources:
            return self._of(TensorRef(name, 0), place).ref.node
        return self._name(name, place)

    def _name(self, name: str, place: int) -> str:
        if place == 0 or name not in self._inside:
            return name
        return self._writer.name("{}/{}".format(place, name))

    def _add(self, tensor: TensorRef, parts: Sequence[Tensor]) -> Tensor:
        total = parts[0]
        for place, part in enumerate(parts[1:], 1):
            added = self._writer.call(
                "sum/{}/{}/{}".format(tensor.node, tensor.index, place),
                "AddV2",
                self._view.device(tensor.node),
                output_shapes=[self._view.shape(tensor)],
                x=total,
                y=part,
                **_SUM,
            )
            total = added.result
        return total

    def _join(self, tensor: TensorRef, parts: Sequence[Tensor]) -> Tensor:
        suffix = "joined/{}/{}".format(tensor.node, tensor.index)
        device = self._view.device(tensor.node)
        shape = self._view.shape(tensor)
        joined = self._writer.joined(
            suffix,
            parts,
            axis=0,
            device=device,
            output_shapes=[_of_any_length(shape)],
            **_SUM,
        )
        if not shape or shape[0] is None:
            return joined
        return self._of_any_length(joined, tensor, suffix)

    def _of_any_length(self, joined: Tensor, tensor: TensorRef, suffix: str) -> Tensor:
        """Hides the length, as TensorFlow refuses more slices where it has inferred how many."""
        shape = _of_any_length(self._view.shape(tensor))
        default = self._writer.call(
            suffix + "/any_length",
            "PlaceholderWithDefault",
            self._view.device(tensor.node),
            output_shapes=[shape],
            input=joined,
            shape=shape,
            **_OF_ANY_LENGTH,
        )
        return default.result


def _of_any_length(shape: Shape) -> Shape:
    return None if shape is None else (None, *shape[1:])
