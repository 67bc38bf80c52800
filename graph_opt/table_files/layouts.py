"""How the rows of a table lie in the tensors of a checkpoint."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Tuple

import numpy as np

from graph_opt.sharding.placement import DIV, MOD, DivRows, ModRows, RowsRule

WHOLE = "whole"
DYNAMIC = "dynamic"
FORMS = "whole, mod:N, mod-parts:N, div-parts:N, dynamic:N"
_OF_KEYS = re.compile(r"dynamic(?::([1-9][0-9]*))?\Z")
_TEXT = re.compile(r"(mod|div)(-parts)?(?::([1-9][0-9]*))?\Z")


class Layout(NamedTuple):
    """How rows are ordered, and among how many tensors.

    Attributes:
      rule: `mod` or `div`; `dynamic` for tables of keys.
      parts: Number of parts; None if what is read tells.
      apart: Whether each part is a tensor of its own; else they follow each other in one.
    """

    rule: str
    parts: Optional[int]
    apart: bool

    def rows(self, num_rows: int, parts: int) -> RowsRule:
        """Which part has which row."""
        rules = {MOD: ModRows, DIV: DivRows}
        return rules[self.rule](num_rows, parts)

    def __str__(self) -> str:
        if self == whole():
            return WHOLE
        name = self.rule + "-parts" * (self.apart and self.rule != DYNAMIC)
        return name if self.parts is None else "{}:{}".format(name, self.parts)


class Stretch(NamedTuple):
    """Rows of a part that follow each other.

    Attributes:
      part: Number of the part.
      first: Number of the first row in the part.
      size: How many.
      places: Which of the rows asked for these are.
    """

    part: int
    first: int
    size: int
    places: np.ndarray


def whole() -> Layout:
    """One tensor, row i at place i."""
    return Layout(MOD, 1, False)


def layout_of(text: str) -> Layout:
    """Reads a layout from the command line.

    Raises:
      ValueError: It is none.

    Example:
      >>> layout_of("mod-parts:4")
      Layout(rule='mod', parts=4, apart=True)
    """
    if text == WHOLE:
        return whole()
    of_keys = _OF_KEYS.match(text)
    if of_keys is not None:
        count = int(of_keys[1] or 1)
        return Layout(DYNAMIC, count, count > 1)
    found = _TEXT.match(text)
    if found is None:
        raise ValueError("no layout {!r}: choose one of {}".format(text, FORMS))
    rule, apart, parts = found[1], bool(found[2]), found[3]
    if not apart and rule == DIV:
        return whole()  # The parts of `div`, one after another, are the table.
    if not apart and parts is None:
        raise ValueError("layout {!r} needs the number of partitions: mod:N".format(text))
    return Layout(rule, None if parts is None else int(parts), apart)


def stretches(rule: RowsRule, first: int, count: int) -> List[Stretch]:
    """Where rows [first, first + count) of a table are."""
    keys = np.arange(first, first + count, dtype=np.int64)
    owners = rule.owner(keys)
    found = []
    for part in np.unique(owners):
        places = np.flatnonzero(owners == part)
        local = rule.local_row(keys[places])
        found.append(Stretch(int(part), int(local[0]), len(places), places))
    return found


def first_rows(rule: RowsRule) -> Tuple[int, ...]:
    """Where each part begins if they follow each other."""
    sizes = [rule.num_local_rows(part) for part in range(rule.num_ranks)]
    return tuple(int(begin) for begin in np.cumsum([0] + sizes[:-1]))
