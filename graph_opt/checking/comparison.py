"""Compares two runs: equal bit for bit, equal within rounding, or different from some step on."""

from __future__ import annotations

import dataclasses
from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from graph_opt.checking.records import NO_RANK, Run, Step, Value
from graph_opt.reporting.value_differences import relative_difference, size_of

ULPS_PER_UPDATE = 16
MOST_RELATIVE = 1e-3
_ULP = 2.0**-23


class Difference(NamedTuple):
    """Where two runs differ.

    Attributes:
      what: The tensor or variable, or what else is different.
      where: The step, or the end of a session, in words.
      relative: Largest difference, as a part of the largest number that the tensor has had; inf
        where numbers cannot be compared.
      allowed: What rounding may make of it.
      updates: How many steps had trained by then.
      step: Number of the step; 0 at the end of a session.
    """

    what: str
    where: str
    relative: float
    allowed: float = 0.0
    updates: int = 0
    step: int = 0

    @property
    def is_rounding(self) -> bool:
        """Whether rounding explains it."""
        return self.relative <= self.allowed

    def __str__(self) -> str:
        if np.isinf(self.relative):
            return "{} {}".format(self.what, self.where)
        return "{} {}, by {:.2g} of its size".format(self.what, self.where, self.relative)


class Scalar(NamedTuple):
    """A number that steps returned, in two runs.

    Attributes:
      stock: Its last value in the stock run.
      other: Its last value in the other one.
      largest: Where it differs most; None if it never does.
    """

    stock: float
    other: float
    largest: Optional[Difference] = None


@dataclasses.dataclass
class Comparison:
    """How a run differs from another.

    Attributes:
      steps: How many steps were compared.
      values: How many values, of steps and of variables.
      bits_differ: How many of them differ in some bit.
      first: The first difference that rounding does not explain; None if there is none.
      largest: The largest difference; None if all values are equal bit for bit.
      earliest: Where the bits begin to differ; None if they do not.
      variables: Variables that differ at the end by more than rounding, the largest first.
      fed: The first step that the script fed something else in each run; "" if there is none.
      scalars: What became of each number that steps returned, such as a loss.
    """

    steps: int = 0
    values: int = 0
    bits_differ: int = 0
    first: Optional[Difference] = None
    largest: Optional[Difference] = None
    earliest: Optional[Difference] = None
    variables: List[Difference] = dataclasses.field(default_factory=list)
    fed: str = ""
    scalars: Dict[str, Scalar] = dataclasses.field(default_factory=dict)

    @property
    def is_bit_equal(self) -> bool:
        """Whether nothing differs."""
        return self.first is None and not self.bits_differ

    @property
    def is_order_of_sums(self) -> bool:
        """Whether nothing differs, or rounding explains it and it begins with what a sum may make.

        That is what two runs of the same graph may differ by, whose variables begin as the same.
        """
        begins = 0.0 if self.earliest is None else self.earliest.relative
        return self.first is None and begins <= ULPS_PER_UPDATE * _ULP

    def note(self, difference: Difference, is_of_step: bool) -> None:
        """Adds a difference between values."""
        self.bits_differ += 1
        self.earliest = self.earliest or difference
        if self.largest is None or difference.relative > self.largest.relative:
            self.largest = difference
        if difference.is_rounding:
            return
        if is_of_step:
            self.first = self.first or difference
        else:
            self.variables.append(difference)


def allowed_after(updates: int) -> float:
    """How far rounding may carry two runs apart, relative to the largest number of a tensor.

    Sums in another order differ by some units in the last place, and each update may add as much:
    16 units of float32 for each update so far, and for the step itself; at most 0.001.
    """
    return min(ULPS_PER_UPDATE * _ULP * (1 + updates), MOST_RELATIVE)


def compare(stock: Run, other: Run) -> Comparison:
    """Compares a run with the stock one.

    Steps are compared with those of the same session and thread after as many updates, and within
    a step what both have fetched. A run that was ended after some steps is compared as far as it
    goes.
    """
    found = Comparison()
    scales: Dict[str, float] = {}
    others = {step.place: step for step in other.steps}
    for step in stock.steps:
        match = others.get(step.place)
        if match is not None:
            _compare_steps(found, step, match, scales)
    if not (stock.facts.reached_limit or other.facts.reached_limit):
        _compare_lengths(found, stock, other)
    _compare_variables(found, stock, other)
    found.variables.sort(key=lambda one: -one.relative)
    if found.first is None and found.variables:
        found.first = found.variables[0]
    return found


def _compare_steps(found: Comparison, stock: Step, other: Step, scales: Dict[str, float]) -> None:
    where = _where(stock)
    found.steps += 1
    if stock.fed != other.fed and not found.fed:
        names = [name for name, one in stock.fed.items() if other.fed.get(name) != one]
        found.fed = "{} {}".format(", ".join(names) or "what is fed", where)
    if stock.raised != other.raised:
        what = "{} instead of {}".format(other.raised or "no error", stock.raised or "no error")
        found.first = found.first or Difference(
            what, where, np.inf, 0.0, stock.updates, stock.number
        )
        return
    others = {value.name: value for value in other.fetched}
    for one in stock.fetched:
        two = others.get(one.name)
        if two is None:
            continue  # Hooks fetch summaries when it is time.
        found.values += 1
        scale = max(scales.get(one.name, 0.0), _size(one))
        scales[one.name] = scale
        relative = difference_of(one, two, scale)
        place: Optional[Difference] = None
        if relative is not None:
            allowed = allowed_after(stock.updates)
            place = Difference(one.name, where, relative, allowed, stock.updates, stock.number)
            found.note(place, is_of_step=True)
        _follow(found, one.name + _of_rank(stock.rank), (one, two), place)


def _compare_lengths(found: Comparison, stock: Run, other: Run) -> None:
    if found.first is not None:
        return
    what = "the run ended after {} steps that train instead of {}"
    lengths = other.updates, stock.updates
    if not any(lengths):
        what = "the run ended after {} steps instead of {}"
        lengths = len(other.steps), len(stock.steps)
    if lengths[0] == lengths[1]:
        return
    text = what.format(*lengths)
    shorter = stock if lengths[0] > lengths[1] else other
    if shorter.failure:
        text += " ({})".format(shorter.failure)
    found.first = Difference(text, "", np.inf, 0.0, shorter.updates, len(shorter.steps) + 1)


def _compare_variables(found: Comparison, stock: Run, other: Run) -> None:
    ends = {(end.rank, end.session): end for end in other.variables}
    for end in stock.variables:
        match = ends.get((end.rank, end.session))
        if match is None or match.updates != end.updates:
            continue
        values = {value.name: value for value in match.values}
        for one in end.values:
            if one.name not in values:
                continue
            found.values += 1
            relative = difference_of(one, values[one.name], _size(one))
            if relative is not None:
                where = "at the end of session {}{}".format(end.session, _of_rank(end.rank))
                name = "variable " + one.name
                # Slots are sums of gradients that may cancel to much less than what was rounded.
                place = Difference(name, where, relative, MOST_RELATIVE, end.updates)
                found.note(place, is_of_step=False)


def difference_of(one: Value, two: Value, scale: float) -> Optional[float]:
    """Largest difference of two values as a part of `scale`; None if they are equal bit for bit."""
    if one.digest == two.digest:
        return None
    if one.numbers is None or two.numbers is None or one.shape != two.shape:
        return np.inf
    if one.numbers.dtype.kind not in "fc" or one.numbers.dtype != two.numbers.dtype:
        return np.inf
    return relative_difference(one.numbers, two.numbers, scale)


def _size(value: Value) -> float:
    if value.numbers is None or value.numbers.dtype.kind not in "fc":
        return 0.0
    return size_of(value.numbers)


def _follow(
    found: Comparison, name: str, values: Tuple[Value, Value], place: Optional[Difference]
) -> None:
    """Notes the values of a number, and where it differs most."""
    one, two = values
    if one.numbers is None or two.numbers is None or one.shape != () or two.shape != ():
        return
    if one.numbers.dtype.kind != "f":
        return
    before = found.scalars.get(name)
    largest = before.largest if before is not None else None
    if place is not None and (largest is None or place.relative > largest.relative):
        largest = place
    found.scalars[name] = Scalar(float(one.numbers[0]), float(two.numbers[0]), largest)


def _where(step: Step) -> str:
    if step.trains:
        text = "in training step {}".format(step.updates)
    else:
        text = "in step {}, after {} training steps".format(step.number, step.updates)
    if step.session > 1:
        text += ", in session {}".format(step.session)
    if step.stream > 1:
        text += ", in thread {}".format(step.stream)
    return text + _of_rank(step.rank)


def _of_rank(rank: int) -> str:
    return "" if rank == NO_RANK else " of rank {}".format(rank)
