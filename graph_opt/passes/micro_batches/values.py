"""What is known of a tensor if the rows of a batch are divided among micro-batches.

Rows     micro-batch i has rows that lie one after the other: joined, they are the tensor
total    the micro-batches' tensors add up to it
numbers  integers such as shapes, in which a number of rows is the micro-batch's own
else     one value, which all micro-batches share

The rules for ops (elementwise, layout, products, reductions) say which of these a result is, and
refuse all else.
"""

from __future__ import annotations

import dataclasses
from typing import Any, List, NamedTuple, Optional

import numpy as np

from graph_opt.graph.view import TensorRef


class RowCount:
    """The number of rows of some tensors, which are all divided at the same places.

    Args:
      first: The tensor that has the number as its first dimension.
      static: The number, if it is known.
    """

    def __init__(self, first: TensorRef, static: Optional[int]) -> None:
        self._first = first
        self._static = static
        self._same_as: Optional[RowCount] = None

    @property
    def root(self) -> RowCount:
        """The one that stands for all that were found to be the same."""
        found = self
        while found._same_as is not None:
            found = found._same_as
        return found

    @property
    def first(self) -> TensorRef:
        """The tensor that tells the number."""
        return self.root._first

    @property
    def static(self) -> Optional[int]:
        """The number, if it is known."""
        return self.root._static

    def unite(self, other: RowCount) -> bool:
        """Notes that both are the same number; False if they are known to differ."""
        mine, theirs = self.root, other.root
        if mine is theirs:
            return True
        if mine._static != theirs._static:
            return False
        theirs._same_as = mine
        return True


class Rows(NamedTuple):
    """How the rows of a batch lie in a tensor.

    Attributes:
      axis: The dimension along which they lie.
      rows: How many rows the batch has.
      times: How long the dimension is for each of them; None if it is not known.
    """

    axis: int
    rows: RowCount
    times: Optional[int] = 1

    @property
    def length(self) -> Optional[int]:
        """The dimension's size, if it is known."""
        if self.rows.static is None or self.times is None:
            return None
        return self.rows.static * self.times

    def alike(self, other: Rows) -> bool:
        """Whether the dimension of both is divided at the same places, if it is as long.

        That it is as long, the step itself requires. Notes that it is.
        """
        differ = None not in (self.times, other.times) and self.times != other.times
        return not differ and self.rows.unite(other.rows)


@dataclasses.dataclass(frozen=True)
class Count:
    """An integer that is a multiple of a number of rows; `times` is None if it is not known."""

    rows: RowCount
    times: Optional[int]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Count)
            and self.rows.root is other.rows.root
            and self.times is not None
            and self.times == other.times
        )

    def __hash__(self) -> int:
        return hash(self.times)


@dataclasses.dataclass(frozen=True)
class Value:
    """One tensor.

    Attributes:
      rows: Where the batch's rows are in it; None if it has none.
      total: Whether it is the sum of the micro-batches' tensors.
      numbers: Its elements as an array of int, Count, and None for an integer that is not known
        but has nothing to do with rows; None if nothing is known of them.
      early: Whether its value for the whole batch is known before any micro-batch is computed,
        without computing layers for all of its rows.
      variable: Whether it depends on variables.
    """

    rows: Optional[Rows] = None
    total: bool = False
    numbers: Optional[Any] = None
    early: bool = True
    variable: bool = False

    @property
    def shared(self) -> bool:
        """Whether all micro-batches have the same tensor."""
        return self.rows is None and not self.total and not has_counts(self.numbers)


def has_counts(numbers: Optional[Any]) -> bool:
    """Whether some of these integers are numbers of rows."""
    return numbers is not None and any(isinstance(one, Count) for one in numbers.flat)


def array_of(elements: List[Any]) -> Any:
    """A vector of such integers."""
    made = np.empty(len(elements), dtype=object)
    made[:] = elements
    return made
