"""What a graph's user learns, and may choose, of updates that sessions merge into one op."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import tf
from graph_opt.compat.exchange_sums import EXCHANGE_SUMS, name_in_process, note_graph
from graph_opt.compat.live_graph import set_attribute
from graph_opt.ops.merged_updates import KEPT_APART, noted_updates
from graph_opt.reporting.tables import counted

_MERGED = "the updates of {}, which ranks share, are one op"
_KEPT = "the updates of {}, which ranks share, are an op each: {}"
_OTHERS = "tables that ranks share are updated by more than one op: {}"


def note_updates_of(graph: Any) -> None:
    """Has what becomes of updates noted for this graph; to be called before a session runs it."""
    for operation in _sums(graph):
        note_graph(operation)


def keep_updates_apart(graph: Any) -> None:
    """Leaves the updates of a graph as they are; to be called before a session runs it."""
    for operation in _sums(graph):
        set_attribute(graph, operation.name, KEPT_APART, tf.AttrValue(b=True))


def merged_updates_text(graph: Any) -> List[str]:
    """A line for each exchange whose updates a session has run, and why they are not merged."""
    lines = []
    for operation in _sums(graph):
        noted = noted_updates(name_in_process(operation))
        tables = counted(noted.tables, "table")
        if noted.refusal:
            text = _KEPT.format(tables, noted.refusal) if noted.tables else _OTHERS
            lines.append(text.format(noted.refusal))
        elif noted.tables:
            lines.append(_MERGED.format(tables))
    return lines


def _sums(graph: Any) -> List[Any]:
    return [operation for operation in graph.get_operations() if operation.type == EXCHANGE_SUMS]
