"""How old the rows were that sampled steps have used, by table."""

from __future__ import annotations

import dataclasses
import math
import threading
import weakref
from typing import Any, Dict, List, MutableMapping, Sequence, Tuple

from graph_opt.reporting.tables import counted, table

_MOST_SHOWN = 4


@dataclasses.dataclass(frozen=True)
class TableStaleness:
    """One table in the steps that were sampled.

    Attributes:
      table: Its name.
      steps: How many steps were sampled when it was the table's turn.
      missed: For 0, 1, 2, ... updates of this process how many rows had missed so many of them; the
        last entry has those of as many or more. A row counts once for each step that used it. Empty
        if missed updates are not counted.
      relative_l2: By how much the lookups' results differed from what they would have returned in
        the step itself: the L2 norm of the difference over that of the latter.
      uncounted: Why missed updates are not counted; "" if they are.
      sampled_steps: How many steps were sampled in all. Tables take turns, so that a sample costs
        little however many there are.
    """

    table: str
    steps: int
    missed: Tuple[int, ...]
    relative_l2: float
    uncounted: str = ""
    sampled_steps: int = 0

    @property
    def rows(self) -> int:
        """How many rows the steps used."""
        return sum(self.missed)

    @property
    def mean_missed(self) -> float:
        """How many updates a row missed on average."""
        updates = sum(number * count for number, count in enumerate(self.missed))
        return updates / max(self.rows, 1)

    def to_dict(self) -> Dict[str, Any]:
        """Plain lists, strings and numbers."""
        return dict(dataclasses.asdict(self), missed=list(self.missed))


class _Sums:
    """What was added up for a table."""

    def __init__(self) -> None:
        self.steps = 0
        self.sampled_steps = 0
        self.missed: List[int] = []
        self.squares = [0.0, 0.0]
        self.uncounted = ""


_lock = threading.Lock()
_sums: MutableMapping[Any, Dict[str, _Sums]] = weakref.WeakKeyDictionary()


def next_turn(graph: Any, tables: Sequence[str]) -> int:
    """The number of the table that a sample begins with: the first that had the fewest turns."""
    with _lock:
        by_table = _sums.get(graph, {})
        turns = [by_table[name].steps if name in by_table else 0 for name in tables]
    return turns.index(min(turns))


def note_sample(
    graph: Any,
    tables: Sequence[str],
    uncounted: Sequence[str],
    missed: Any,
    squares: Any,
    measured: Sequence[bool],
) -> None:
    """Adds a sampled step.

    Args:
      graph: Its `tf.Graph`.
      tables: Names of the tables.
      uncounted: For each why missed updates are not counted; "" if they are.
      missed: [tables, n]. How many rows missed 0, 1, 2, ... updates.
      squares: [tables, 2]. Sums of squares: of the differences, and of what is right.
      measured: [tables]. Whether it was a table's turn.
    """
    with _lock:
        by_table = _sums.setdefault(graph, {})
        for number, name in enumerate(tables):
            sums = by_table.setdefault(name, _Sums())
            sums.sampled_steps += 1
            if not measured[number]:
                continue
            sums.steps += 1
            sums.uncounted = uncounted[number]
            if not sums.uncounted:
                before = sums.missed or [0] * len(missed[number])
                sums.missed = [old + int(new) for old, new in zip(before, missed[number])]
            sums.squares = [old + float(new) for old, new in zip(sums.squares, squares[number])]


def staleness_of(graph: Any) -> Tuple[TableStaleness, ...]:
    """What is known of a graph's tables, by name; without those that had no turn yet."""
    with _lock:
        found = sorted(_sums.get(graph, {}).items())
        return tuple(_told(name, sums) for name, sums in found if sums.steps)


def staleness_text(tables: Sequence[TableStaleness]) -> str:
    """A table for people; "" for none."""
    if not tables:
        return ""
    header = ["rows that missed", *map(str, range(_MOST_SHOWN)), "more", "mean", "relative L2"]
    rows = [[one.table, *_shares(one), "{:.2g}".format(one.relative_l2)] for one in tables]
    remarks = [
        "missed updates of {} are not counted: {}".format(one.table, one.uncounted)
        for one in tables
        if one.uncounted
    ]
    return "\n".join([_title(tables), table(header, rows), *remarks])


def _title(tables: Sequence[TableStaleness]) -> str:
    steps = counted(max(one.sampled_steps for one in tables), "sampled step")
    title = "rows that ran ahead, in {}".format(steps)
    if all(one.steps == one.sampled_steps for one in tables):
        return title
    turns = [one.steps for one in tables]
    return "{}, each table in {} to {} of them".format(title, min(turns), max(turns))


def _shares(one: TableStaleness) -> List[str]:
    if one.uncounted:
        return ["-"] * (_MOST_SHOWN + 2)
    counts = [*one.missed[:_MOST_SHOWN], *[0] * (_MOST_SHOWN - len(one.missed))]
    counts.append(one.rows - sum(counts))
    shares = ["{:.1%}".format(count / max(one.rows, 1)) for count in counts]
    return [*shares, "{:.2f}".format(one.mean_missed)]


def _told(name: str, sums: _Sums) -> TableStaleness:
    difference, value = sums.squares
    relative = (
        math.sqrt(difference / value) if value > 0 else (0.0 if difference == 0 else math.inf)
    )
    missed = list(sums.missed)
    while missed and not missed[-1]:
        missed.pop()
    return TableStaleness(
        name, sums.steps, tuple(missed), relative, sums.uncounted, sums.sampled_steps
    )
