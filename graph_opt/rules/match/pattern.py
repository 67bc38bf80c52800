"""Patterns of nodes, written as the expressions they compute and matched from the result upwards.

    op("Mul", rows, tensor("weights"))     a node of this op, and what makes its inputs
    unique = op("Unique", ids)             unique[1] is its second output; used twice, one node
    tensor("weights")                      any tensor; the same name means the same tensor
    one_of(pattern, pattern, ..)           the first that matches
    optional("Cast", pattern)              that op around the pattern, or the pattern alone
    through("Identity", pattern)           any number of these ops around the pattern
    constant([1]), integer(3)              a Const; an expression of constants with this value
    pattern.where(condition, need)         matches only if the condition holds
    pattern.gives(combiner="mean")         records a fact when it matches
    pattern.after(pattern)                 matches only if its node waits for that one's node

A choice commits to the first alternative that matches (as in parsing expression grammars: Ford,
POPL 2004), which makes matching linear in the size of the pattern. A pattern object stands for one
place in the graph: wherever it occurs again, it must match the same tensor.
"""

from __future__ import annotations

import abc
from typing import Any, Callable, Collection, Dict, FrozenSet, Optional, Tuple, Union

import numpy as np

from graph_opt.graph.view import TensorRef
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.structure import integer_of

Ops = Union[str, Collection[str]]
# Returns None if unknown static shapes leave the condition undecided.
Condition = Callable[[Match, TensorRef], Optional[bool]]


class Pattern(abc.ABC):
    """A description of how a tensor is computed."""

    def match(self, match: Match, tensor: TensorRef) -> bool:
        """Whether the pattern matches the tensor; bindings are recorded in `match`.

        After False, `match` contains a partial match, which a caller that continues must undo.
        """
        place = match.places.get(self)
        if place is not None:
            return place == tensor or match.mismatch(tensor, str(place))
        if not self.fits(match, tensor):
            return False
        match.note(match.places, self, tensor)
        return True

    @abc.abstractmethod
    def fits(self, match: Match, tensor: TensorRef) -> bool:
        """`match` for the first occurrence of the pattern."""

    @property
    def ops(self) -> Optional[FrozenSet[str]]:
        """The op types that may produce the tensor; None for any."""
        return None

    def where(self, condition: Condition, need: str) -> Pattern:
        """This pattern with a condition, which is checked after the pattern itself has matched."""
        return _Where(self, condition, need)

    def after(self, earlier: Pattern) -> Pattern:
        """This pattern, if its node waits for exactly one node that `earlier` matches."""
        return _After(self, earlier)

    def gives(self, **facts: Any) -> Pattern:
        """This pattern, which records these facts when it matches."""
        return _Gives(self, facts)


class Op(Pattern):
    """A node; as a tensor, its first output. Created by `op`."""

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

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        """Whether the tensor is the first output of such a node."""
        return self.fits_output(match, tensor, 0)

    def fits_output(self, match: Match, tensor: TensorRef, index: int) -> bool:
        """Whether the tensor is output `index` of such a node."""
        node = match.nodes_of.get(self)
        if node is not None:
            wanted = TensorRef(node, index)
            return tensor == wanted or match.mismatch(tensor, str(wanted))
        view = match.view
        if tensor.index != index or view.op(tensor.node) not in self._ops:
            need = "output {} of {}".format(index, " or ".join(sorted(self._ops)))
            return match.mismatch(tensor, need)
        found = view.inputs(tensor.node)
        if len(found) < len(self._inputs) or (
            len(found) > len(self._inputs) and not self._takes_rest
        ):
            need = "{} inputs".format(len(self._inputs))
            return match.mismatch(tensor, need, str(len(found)))
        if not self._has_attributes(match, tensor):
            return False
        match.note(match.nodes_of, self, tensor.node)
        match.note(match.nodes, tensor.node, None)
        return all(pattern.match(match, source) for pattern, source in zip(self._inputs, found))

    def _has_attributes(self, match: Match, tensor: TensorRef) -> bool:
        for key, wanted in self._attributes.items():
            value = match.view.attribute(tensor.node, key)
            found = 0 if value is None else value.i
            if found != wanted:
                return match.mismatch(tensor, "{} {}".format(key, wanted), str(found))
        return True


class _Output(Pattern):
    def __init__(self, op: Op, index: int) -> None:
        self._op = op
        self._index = index

    @property
    def ops(self) -> FrozenSet[str]:
        return self._op.ops

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        return self._op.fits_output(match, tensor, self._index)


class _Tensor(Pattern):
    def __init__(self, name: str) -> None:
        self._name = name

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        bound = match.tensors.get(self._name)
        if bound is None:
            match.note(match.tensors, self._name, tensor)
            return True
        return bound == tensor or match.mismatch(tensor, str(bound))


class _OneOf(Pattern):
    def __init__(self, patterns: Tuple[Pattern, ...]) -> None:
        self._patterns = patterns

    @property
    def ops(self) -> Optional[FrozenSet[str]]:
        found = [pattern.ops for pattern in self._patterns]
        known = [ops for ops in found if ops is not None]
        return frozenset().union(*known) if len(known) == len(found) else None

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        for pattern in self._patterns:
            mark = match.mark()
            if pattern.match(match, tensor):
                return True
            match.undo(mark)
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

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        for _ in range(self._most):
            if tensor.index != 0 or match.view.op(tensor.node) not in self._ops:
                break
            match.note(match.nodes, tensor.node, None)
            tensor = match.view.inputs(tensor.node)[0]
        return self._inner.match(match, tensor)


class _Wrapper(Pattern):
    """A pattern that does something more once its inner pattern has matched."""

    def __init__(self, inner: Pattern) -> None:
        self._inner = inner

    @property
    def ops(self) -> Optional[FrozenSet[str]]:
        return self._inner.ops

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        return self._inner.match(match, tensor) and self.fits_too(match, tensor)

    @abc.abstractmethod
    def fits_too(self, match: Match, tensor: TensorRef) -> bool:
        """Whether the rest fits."""


class _Where(_Wrapper):
    def __init__(self, inner: Pattern, condition: Condition, need: str) -> None:
        super().__init__(inner)
        self._condition = condition
        self._need = need

    def fits_too(self, match: Match, tensor: TensorRef) -> bool:
        holds = self._condition(match, tensor)
        if holds is None:
            match.note(match.unknown, (tensor, self._need), None)
        return holds is not False or match.mismatch(tensor, self._need)


class _After(_Wrapper):
    def __init__(self, inner: Pattern, earlier: Pattern) -> None:
        super().__init__(inner)
        self._earlier = earlier

    def fits_too(self, match: Match, tensor: TensorRef) -> bool:
        view, ops = match.view, self._earlier.ops or frozenset()
        waits = [name for name in view.controls(tensor.node) if view.op(name) in ops]
        if len(waits) != 1:
            need = "a wait for one " + " or ".join(sorted(ops))
            return match.mismatch(tensor, need, str(len(waits)))
        return self._earlier.match(match, TensorRef(waits[0], 0))


class _Gives(_Wrapper):
    def __init__(self, inner: Pattern, facts: Dict[str, Any]) -> None:
        super().__init__(inner)
        self._facts = facts

    def fits_too(self, match: Match, tensor: TensorRef) -> bool:
        for name, fact in self._facts.items():
            match.note(match.facts, name, fact)
        return True


class Anywhere(Pattern):
    """A pattern that is not tied to one place: it may match several tensors."""

    def match(self, match: Match, tensor: TensorRef) -> bool:
        """Whether the pattern matches the tensor, whatever else it has matched."""
        return self.fits(match, tensor)


class _Any(Anywhere):
    def fits(self, match: Match, tensor: TensorRef) -> bool:
        return True


class _Constant(Anywhere):
    def __init__(self, holds: Callable[[np.ndarray], bool], need: str) -> None:
        self._holds = holds
        self._need = need

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        value = match.view.constant(tensor)
        if value is None:
            return match.mismatch(tensor, self._need)
        return self._holds(value) or match.mismatch(tensor, self._need, str(value))


class _Integer(Anywhere):
    def __init__(self, wanted: int) -> None:
        self._wanted = wanted

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        found = integer_of(match.view, tensor)
        need = "the constant {}".format(self._wanted)
        saw = "a tensor" if found is None else str(found)
        return found == self._wanted or match.mismatch(tensor, need, saw)


ANY: Pattern = _Any()


def op(ops: Ops, *inputs: Any, **attributes: int) -> Op:
    """A node of one of these ops with these inputs.

    Args:
      ops: Op types.
      inputs: A pattern for each data input; `...` as the last one allows any further inputs.
      attributes: Values of integer attributes; 0 also matches an attribute that is not set.

    Example:
      >>> product = op("Mul", tensor("rows"), tensor("weights"))
    """
    rest = bool(inputs) and inputs[-1] is Ellipsis
    return Op(ops, inputs[:-1] if rest else inputs, rest, attributes)


def tensor(name: str) -> Pattern:
    """Any tensor, bound to the name."""
    return _Tensor(name)


def one_of(*patterns: Pattern) -> Pattern:
    """The first of these patterns that matches."""
    return _OneOf(patterns)


def optional(ops: Ops, inner: Pattern) -> Pattern:
    """One of these ops around the pattern, or the pattern alone."""
    return _Through(ops, inner, 1)


def through(ops: Ops, inner: Pattern, most: int = 8) -> Pattern:
    """Up to `most` of these ops around the pattern, followed through their first inputs."""
    return _Through(ops, inner, most)


def constant(value: Any) -> Pattern:
    """A Const with this value."""
    wanted = np.asarray(value)
    return _Constant(lambda found: np.array_equal(found, wanted), "a constant {}".format(value))


def constant_of(holds: Callable[[np.ndarray], bool], need: str) -> Pattern:
    """A Const whose value satisfies a predicate."""
    return _Constant(holds, need)


def integer(value: int) -> Pattern:
    """An expression of single-element integer constants with this value."""
    return _Integer(value)
