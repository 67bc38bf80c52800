"""How many of the rows that steps used had been written since they were looked up, by table."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from typing import Any, Dict, MutableMapping, NamedTuple, Sequence, Tuple

from graph_opt.reporting.tables import table


@dataclasses.dataclass(frozen=True)
class TableRefresh:
    """One table whose rows are refreshed before a step uses them.

    Attributes:
      table: Its name.
      steps: How many steps used rows of it, counted once for each fused op that looks it up.
      steps_in_main: In how many of them nothing was looked up ahead: the step itself looked all
        rows up, or servers were asked to pool bags, by it or behind the update before.
      ids: How many ids were looked up ahead, in the other steps.
      ids_changed: How many of these had a row that was written, oftener than it may miss, before
        the step used it. Where steps write thousands of rows of a large table, a few other ids are
        taken for such.
      bags: How many bags these ids make.
      bags_changed: How many bags had such an id.
    """

    table: str
    steps: int = 0
    steps_in_main: int = 0
    ids: int = 0
    ids_changed: int = 0
    bags: int = 0
    bags_changed: int = 0

    @property
    def share_changed(self) -> float:
        """The share of ids that had such a row."""
        return self.ids_changed / max(self.ids, 1)

    def to_dict(self) -> Dict[str, Any]:
        """Plain strings and numbers."""
        return dataclasses.asdict(self)


class _Noted(NamedTuple):
    """What an op had counted before any step of its graph, and what it has counted so far."""

    before: Tuple[TableRefresh, ...]
    now: Tuple[TableRefresh, ...]


# By the number that tells the counts of an op from those in another session or server.
_Counts = Dict[int, _Noted]

_lock = threading.Lock()
_counts: MutableMapping[Any, _Counts] = weakref.WeakKeyDictionary()


def note_refreshed(
    graph: Any, tables: Sequence[str], counts: Any, made: int, begins: bool = False
) -> None:
    """Notes what an op has counted so far.

    Args:
      graph: Its `tf.Graph`.
      tables: The names of the tables; "" for those that do not count.
      counts: [tables, 6]. The numbers of TableRefresh, in its order.
      made: Tells these counts from others.
      begins: Whether a session begins: what a worker has counted before is not the graph's, unless
        an earlier session of it has noted them.
    """
    told = tuple(
        TableRefresh(name, *(int(count) for count in row))
        for name, row in zip(tables, counts)
        if name
    )
    with _lock:
        of_graph = _counts.setdefault(graph, {})
        noted = of_graph.setdefault(made, _Noted(told if begins else (), ()))
        # Another thread may have read them later, and noted them before.
        if sum(one.steps for one in told) >= sum(one.steps for one in noted.now):
            of_graph[made] = noted._replace(now=told)


def refreshed_of(graph: Any) -> Tuple[TableRefresh, ...]:
    """What is known of a graph's tables, by name; without those that no step has used."""
    with _lock:
        noted = list(_counts.get(graph, {}).values())
    sums: Dict[str, TableRefresh] = {}
    for before, now in noted:
        for sign, told in ((-1, before), (1, now)):
            for one in told:
                sums[one.table] = _sum(sums.get(one.table, TableRefresh(one.table)), one, sign)
    return tuple(sums[name] for name in sorted(sums) if sums[name].steps)


def refreshed_text(tables: Sequence[TableRefresh]) -> str:
    """A table for people; "" for none."""
    if not tables:
        return ""
    header = ["rows refreshed", "steps", "in main", "ids ahead", "changed", "bags", "again"]
    return table(header, [_row(one) for one in tables])


def _row(one: TableRefresh) -> Tuple[Any, ...]:
    return (
        one.table,
        one.steps,
        "{:.1%}".format(one.steps_in_main / max(one.steps, 1)),
        one.ids,
        "{:.1%}".format(one.share_changed) if one.ids else "-",
        one.bags,
        "{:.1%}".format(one.bags_changed / one.bags) if one.bags else "-",
    )


def _sum(one: TableRefresh, other: TableRefresh, sign: int) -> TableRefresh:
    numbers = zip(dataclasses.astuple(one)[1:], dataclasses.astuple(other)[1:])
    return TableRefresh(one.table, *(first + sign * second for first, second in numbers))
