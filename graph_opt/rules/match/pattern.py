"""Patterns of nodes, written as the expressions that they compute, and read from the result up.

    op("Mul", rows, tensor("weights"))     a node of this op, and what makes its inputs
    unique = op("Unique", ids)             unique[1] is its second output; used twice, one node
    tensor("weights")                      any tensor; of one name, one tensor
    one_of(pattern, pattern, ..)           the first that fits
    optional("Cast", pattern)              that op around the pattern, or the pattern alone
    through("Identity", pattern)           any number of these ops around it
    constant([1]), integer(3)              a Const; an expression of constants with this value
    pattern.where(condition, need)         and the condition holds
    pattern.gives(combiner="mean")         notes a fact when it fits

A choice is made for good by the first alternative that fits (as in parsing expression grammars:
Ford, POPL 2004), which makes matching linear in the nodes of the pattern. A pattern object stands
for one place of the graph: met again, it must be the same tensor.
"""

from __future__ import annotations

import abc
from typing import Any, Callable, Collection, Dict, FrozenSet, Optional, Tuple, Union

import numpy as np

from graph_opt.graph.view import TensorRef
from graph_opt.rules.match.matcher import Reading
from graph_opt.rules.match.structure import integer_of

Ops = Union[str, Collection[str]]
# True, False, or None where static shapes that are not known would tell.
Condition = Callable[[Reading, TensorRef], Optional[bool]]


class Pattern(abc.ABC):
    """Something that a tensor may be."""

    def match(self, reading: Reading, tensor: TensorRef) -> bool:
        """Whether the tensor is that; what was bound is left in the reading.

        After False the reading holds half a match: whoever goes on undoes it.
        """
        place = reading.places.get(self)
        if place is not None:
            return place == tensor or reading.differs(tensor, str(place))
        if not self.fits(reading, tensor):
            return False
        reading.note(reading.places, self, tensor)
        return True

    @abc.abstractmethod
    def fits(self, reading: Reading, tensor: TensorRef) -> bool:
        """`match` where the pattern is met first."""

    @property
    def ops(self) -> Optional[FrozenSet[str]]:
        """Op types of which one makes the tensor; None for any."""
        return None

    def where(self, condition: Condition, need: str) -> Pattern:
        """This pattern where a condition holds, once the pattern itself fits."""
        return _Where(self, condition, need)

    def gives(self, **facts: Any) -> Pattern:
        """This pattern, which tells these facts of the graph."""
        return _Gives(self, facts)


class Op(Pattern):
    """A node; as a tensor, its first output. Made by `op`."""

    def __init__(
        self, ops: Ops, inputs: Tuple[Pattern, ...], rest: bool, attributes: Dict[str, int]
    ) -> None:
        self._ops = frozenset([ops] if isinstance(ops, str) else ops)
        self._inputs = inputs
        self._takes_rest = rest
        self._attributes = attributes

    @property
    def ops(self) -> FrozenSet[str]:
        """Its op types."""
        return self._ops

    def __getitem__(self, index: int) -> Pattern:
        return _Output(self, index)

    def fits(self, reading: Reading, tensor: TensorRef) -> bool:
        """Whether the tensor is the first output of such a node."""
        return self.fits_output(reading, tensor, 0)

    def fits_output(self, reading: Reading, tensor: TensorRef, index: int) -> bool:
        """Whether the tensor is output `index` of such a node."""
        node = reading.nodes_of.get(self)
        if node is not None:
            wanted = TensorRef(node, index)
            return tensor == wanted or reading.differs(tensor, str(wanted))
        view = reading.view
        if tensor.index != index or view.op(tensor.node) not in self._ops:
            need = "output {} of {}".format(index, " or ".join(sorted(self._ops)))
            return reading.differs(tensor, need)
        found = view.inputs(tensor.node)
        if len(found) < len(self._inputs) or (
            len(found) > len(self._inputs) and not self._takes_rest
        ):
            need = "{} inputs".format(len(self._inputs))
            return reading.differs(tensor, need, str(len(found)))
        if not self._has_attributes(reading, tensor):
            return False
        reading.note(reading.nodes_of, self, tensor.node)
        reading.note(reading.nodes, tensor.node, None)
        return all(pattern.match(reading, source) for pattern, source in zip(self._inputs, found))

    def _has_attributes(self, reading: Reading, tensor: TensorRef) -> bool:
        for key, wanted in self._attributes.items():
            value = reading.view.attribute(tensor.node, key)
            found = 0 if value is None else value.i
            if found != wanted:
                return reading.differs(tensor, "{} {}".format(key, wanted), str(found))
        return True


class _Output(Pattern):
    def __init__(self, op: Op, index: int) -> None:
        self._op = op
        self._index = index

    @property
    def ops(self) -> FrozenSet[str]:
        return self._op.ops

    def fits(self, reading: Reading, tensor: TensorRef) -> bool:
        return self._op.fits_output(reading, tensor, self._index)


class _Tensor(Pattern):
    def __init__(self, name: str) -> None:
        self._name = name

    def fits(self, reading: Reading, tensor: TensorRef) -> bool:
        bound = reading.tensors.get(self._name)
        if bound is None:
            reading.note(reading.tensors, self._name, tensor)
            return True
        return bound == tensor or reading.differs(tensor, str(bound))


class _OneOf(Pattern):
    def __init__(self, patterns: Tuple[Pattern, ...]) -> None:
        self._patterns = patterns

    @property
    def ops(self) -> Optional[FrozenSet[str]]:
        found = [pattern.ops for pattern in self._patterns]
        known = [ops for ops in found if ops is not None]
        return frozenset().union(*known) if len(known) == len(found) else None

    def fits(self, reading: Reading, tensor: TensorRef) -> bool:
        for pattern in self._patterns:
            mark = reading.mark()
            if pattern.match(reading, tensor):
                return True
            reading.undo(mark)
        return False


class _Through(Pattern):
    def __init__(self, ops: Ops, inner: Pattern, most: int) -> None:
        self._ops = frozenset([ops] if isinstance(ops, str) else ops)
        self._inner = inner
        self._most = most

    @property
    def ops(self) -> Optional[FrozenSet[str]]:
        inner = self._inner.ops
        return None if inner is None else inner | self._ops

    def fits(self, reading: Reading, tensor: TensorRef) -> bool:
        for _ in range(self._most):
            if tensor.index != 0 or reading.view.op(tensor.node) not in self._ops:
                break
            reading.note(reading.nodes, tensor.node, None)
            tensor = reading.view.inputs(tensor.node)[0]
        return self._inner.match(reading, tensor)


class _Where(Pattern):
    def __init__(self, inner: Pattern, condition: Condition, need: str) -> None:
        self._inner = inner
        self._condition = condition
        self._need = need

    @property
    def ops(self) -> Optional[FrozenSet[str]]:
        return self._inner.ops

    def fits(self, reading: Reading, tensor: TensorRef) -> bool:
        if not self._inner.match(reading, tensor):
            return False
        holds = self._condition(reading, tensor)
        if holds is None:
            reading.note(reading.unknown, (tensor, self._need), None)
        return holds is not False or reading.differs(tensor, self._need)


class _Gives(Pattern):
    def __init__(self, inner: Pattern, facts: Dict[str, Any]) -> None:
        self._inner = inner
        self._facts = facts

    @property
    def ops(self) -> Optional[FrozenSet[str]]:
        return self._inner.ops

    def fits(self, reading: Reading, tensor: TensorRef) -> bool:
        if not self._inner.match(reading, tensor):
            return False
        for name, fact in self._facts.items():
            reading.note(reading.facts, name, fact)
        return True


class Anywhere(Pattern):
    """A pattern that says nothing of the place: it may stand for several tensors."""

    def match(self, reading: Reading, tensor: TensorRef) -> bool:
        """Whether the tensor is that, wherever else the pattern was met."""
        return self.fits(reading, tensor)


class _Any(Anywhere):
    def fits(self, reading: Reading, tensor: TensorRef) -> bool:
        return True


class _Constant(Anywhere):
    def __init__(self, holds: Callable[[np.ndarray], bool], need: str) -> None:
        self._holds = holds
        self._need = need

    def fits(self, reading: Reading, tensor: TensorRef) -> bool:
        value = reading.view.constant(tensor)
        if value is None:
            return reading.differs(tensor, self._need)
        return self._holds(value) or reading.differs(tensor, self._need, str(value))


class _Integer(Anywhere):
    def __init__(self, wanted: int) -> None:
        self._wanted = wanted

    def fits(self, reading: Reading, tensor: TensorRef) -> bool:
        found = integer_of(reading.view, tensor)
        need = "the constant {}".format(self._wanted)
        saw = "a tensor" if found is None else str(found)
        return found == self._wanted or reading.differs(tensor, need, saw)


ANY: Pattern = _Any()


def op(ops: Ops, *inputs: Any, **attributes: int) -> Op:
    """A node of one of these ops with these inputs.

    Args:
      ops: Op types.
      inputs: A pattern for each data input; `...` as the last one for any further inputs.
      attributes: Integer attributes that it must have; 0 is also one that is left out.

    Example:
      >>> product = op("Mul", tensor("rows"), tensor("weights"))
    """
    rest = bool(inputs) and inputs[-1] is Ellipsis
    return Op(ops, inputs[:-1] if rest else inputs, rest, attributes)


def tensor(name: str) -> Pattern:
    """Any tensor, which is bound to the name."""
    return _Tensor(name)


def one_of(*patterns: Pattern) -> Pattern:
    """The first of these that fits."""
    return _OneOf(patterns)


def optional(ops: Ops, inner: Pattern) -> Pattern:
    """One of these ops around the pattern, or the pattern alone."""
    return _Through(ops, inner, 1)


def through(ops: Ops, inner: Pattern, most: int = 8) -> Pattern:
    """Up to `most` of these ops around the pattern, read by their first inputs."""
    return _Through(ops, inner, most)


def constant(value: Any) -> Pattern:
    """A Const with these entries."""
    wanted = np.asarray(value)
    return _Constant(lambda found: np.array_equal(found, wanted), "a constant {}".format(value))


def constant_of(holds: Callable[[np.ndarray], bool], need: str) -> Pattern:
    """A Const whose value a function accepts."""
    return _Constant(holds, need)


def integer(value: int) -> Pattern:
    """An expression of constant integers of one element each, with this value."""
    return _Integer(value)
