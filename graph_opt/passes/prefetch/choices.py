"""Inputs among which each step chooses by what it is fed: train or evaluation, for example.

    iterator.from_string_handle(handle).get_next()
    tf.cond(is_training, train.get_next, evaluation.get_next)

Each input gets a stage of its own, and main takes from the stage of the one that the step chooses.
What the others hold stays until a step chooses them, so every batch is used once and in order. It
is dropped when the iterator is initialized. After a switch back to an iterator that was not
initialized since, the batches that have waited carry rows as they were when it was left.
"""

from __future__ import annotations

import abc
from typing import Any, Dict, List, Mapping, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_stateful
from graph_opt.compat.stateful_ops import HANDLES, PLACEHOLDERS, VARIABLES
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.io_stages import ITERATORS
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.prefetch.movable import Movability

_TO_STRING_HANDLE = "IteratorToStringHandle"
CHECK_OF = "check_of"
"""The scope of what checks which input a step reads; the user's node that fails so is behind it."""


class Choice(abc.ABC):
    """A node that returns the batch of one of several inputs.

    Args:
      view: The graph.
      source: The node; its outputs are the components of a batch.
      chosen_by: The tensor that says which input a step reads.

    Attributes:
      view, source, chosen_by: As given.
    """

    def __init__(self, view: GraphView, source: str, chosen_by: TensorRef) -> None:
        self.view = view
        self.source = source
        self.chosen_by = chosen_by

    @property
    def of_model(self) -> str:
        """A node that the model itself has in its place, for refusals."""
        return self.source

    @property
    def iterators(self) -> Sequence[str]:
        """Nodes behind which all iterators are that a batch may come from."""
        return (self.source,)

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """Number of inputs."""

    @abc.abstractmethod
    def name_of(self, number: int) -> str:
        """What people call one input."""

    @abc.abstractmethod
    def refuse_batches(self, movability: Movability) -> Optional[Refusal]:
        """Why the batches of the inputs cannot be read ahead."""

    @abc.abstractmethod
    def write_batch(self, number: int, writer: NodeWriter) -> Sequence[str]:
        """Writes the nodes that read a batch of one input, and returns its components."""

    @abc.abstractmethod
    def write_selection(self, writer: NodeWriter) -> List[Tensor]:
        """Writes, for main, one boolean for each input: whether the step reads that one."""

    def refuse(self, movability: Movability) -> Optional[Refusal]:
        """Why the inputs cannot each have a stage."""
        return self._refuse_selection() or self.refuse_batches(movability)

    def _refuse_selection(self) -> Optional[Refusal]:
        """The session starts a stage once a step chooses it, which it must know beforehand."""
        for name in self.view.ancestors([self.chosen_by.node]):
            op = self.view.op(name)
            if op in PLACEHOLDERS or op in HANDLES or op == _TO_STRING_HANDLE:
                continue
            if op in VARIABLES or is_stateful(op):
                return Refusal(
                    "choice_not_fed",
                    at=self.of_model,
                    need="an input that is chosen by what the step is fed, and nothing else",
                    saw="a choice that depends on {} '{}'".format(op, name),
                )
        return None


class FedIterator(Choice):
    """`get_next` of an iterator that is given by its string handle.

    Args:
      view: The graph.
      source: The IteratorGetNext.
      handle: The string handle.
      iterators: The iterators of the graph that it may be the handle of.
    """

    def __init__(
        self, view: GraphView, source: str, handle: TensorRef, iterators: Sequence[str]
    ) -> None:
        super().__init__(view, source, handle)
        self._iterators = iterators

    @property
    def iterators(self) -> Sequence[str]:
        """See `Choice`."""
        return self._iterators

    @property
    def count(self) -> int:
        """Number of iterators."""
        return len(self._iterators)

    def name_of(self, number: int) -> str:
        """The iterator."""
        return self._iterators[number]

    def refuse_batches(self, movability: Movability) -> Optional[Refusal]:
        """Refuses if the graph lacks the iterators."""
        if self._iterators:
            return None
        return Refusal(
            "fed_iterator_unknown",
            at=self.source,
            need="the iterators in the graph before its first session.run",
            saw="a string handle, and no iterator of its types and shapes",
        )

    def write_batch(self, number: int, writer: NodeWriter) -> Sequence[str]:
        """Writes the same node on one of the iterators."""
        original = self.view.nodes[self.source]
        attributes = {key: value for key, value in original.attr.items() if key != "_class"}
        iterator = self._iterators[number]
        device = self.view.device(iterator)
        clone = writer.node(self.source, original.op, [iterator], device, **attributes)
        count = len(original.attr["output_types"].list.type)
        return [TensorRef(clone.name, index).input_name for index in range(count)]

    def write_selection(self, writer: NodeWriter) -> List[Tensor]:
        """Compares the handle with that of each iterator; the step fails if it is none of them."""
        same = [self._write_comparison(number, writer) for number in range(self.count)]
        either = same[0]
        for number, other in enumerate(same[1:]):
            suffix = "is_known_{}".format(number)
            either = writer.call(suffix, "LogicalOr", x=either, y=other).result
        message = writer.constant(
            "message",
            "the string handle that {} reads is of none of the iterators that graph_opt reads "
            "ahead: {}. Make all iterators before the first session.run, or open the session "
            "without do_async_embedding.".format(self.source, ", ".join(self._iterators)),
        )
        made = self.view.through_identity(self.view.inputs(self.source)[0]).node
        check = "{}/{}".format(CHECK_OF, made)
        known = writer.call(check, "Assert", condition=either, data=[message])
        return [
            writer.call(
                "is_{}".format(number), "Identity", waits_for=[known.name], input=each
            ).result
            for number, each in enumerate(same)
        ]

    def _write_comparison(self, number: int, writer: NodeWriter) -> Tensor:
        iterator = self._iterators[number]
        device = self.view.device(iterator)
        handle = writer.call(
            "handle_{}".format(number),
            _TO_STRING_HANDLE,
            device,
            resource_handle=TensorRef(iterator, 0),
        ).result
        suffix = "Equal_{}".format(number)
        return writer.call(suffix, "Equal", x=self.chosen_by, y=handle).result


_GET_NEXT = ("IteratorGetNext", "IteratorGetNextSync")
_FROM_STRING_HANDLE = ("IteratorFromStringHandle", "IteratorFromStringHandleV2")


def fed_iterators(view: GraphView) -> Dict[str, Choice]:
    """The reads of iterators that are given by string handles, by name."""
    found: Dict[str, Choice] = {}
    for name in view.of_op(*_GET_NEXT):
        made = view.through_identity(view.inputs(name)[0]).node
        if view.op(made) in _FROM_STRING_HANDLE:
            handle = view.inputs(made)[0]
            found[name] = FedIterator(view, name, handle, _iterators_like(view, name))
    return found


def _iterators_like(view: GraphView, get_next: str) -> List[str]:
    """The iterators of the graph with the types and shapes of a read."""
    wanted = view.nodes[get_next].attr
    shared: Dict[Any, str] = {}
    for name in view.of_op(*ITERATORS):
        attributes = view.nodes[name].attr
        if _types(attributes) == _types(wanted) and _fit(attributes, wanted):
            container, shared_name = (
                attributes[key].s if key in attributes else b""
                for key in ("container", "shared_name")
            )
            identity = (container, shared_name or name)
            shared.setdefault(identity, name)
    return list(shared.values())


def _types(attributes: Mapping[str, Any]) -> List[int]:
    return list(attributes["output_types"].list.type)


def _fit(attributes: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    shapes, others = (each["output_shapes"].list.shape for each in (attributes, wanted))
    return len(shapes) == len(others) and all(
        tf.TensorShape(one).is_compatible_with(tf.TensorShape(other))
        for one, other in zip(shapes, others)
    )
