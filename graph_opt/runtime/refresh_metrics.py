"""How many of the rows that steps used had been written since they were looked up ahead."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, MutableMapping, NamedTuple, Tuple

from graph_opt.compat import tf
from graph_opt.compat.callables import raw_session
from graph_opt.reporting.refreshed import note_refreshed, refreshed_of, refreshed_text

_OP = "GroupEmbeddingRefreshCounts"


class _Counting(NamedTuple):
    """An op that returns counts: the names of its outputs, and of the tables."""

    outputs: List[str]
    tables: List[str]


_found: MutableMapping[Any, Tuple[int, List[_Counting]]] = weakref.WeakKeyDictionary()


class RefreshMetrics(Dict[str, Dict[str, Any]]):
    """Metrics of each table by its name; as a string, a table."""

    text = ""

    def __str__(self) -> str:
        return self.text


def refresh_metrics(session: Any) -> RefreshMetrics:
    """What steps on a session's graph have refreshed so far, by table.

    Tables are those with exact rows (`async_embedding_options.exact`) or a `staleness_limit` whose
    lookups run ahead: in the process, on parameter servers, or sharded across ranks.

    Args:
      session: An open session, monitored or not. Only the counts are run.

    Returns:
      For each table that a step has used: `steps`, counted once for each fused op that looks it up,
      and `steps_in_main`, those of them in which the step itself looked all of its rows up, since
      too many had changed in steps before, or since servers pooled; of the others `ids`, how many
      were looked up ahead, and `ids_changed`, how many of these had a row that was written, oftener
      than it may miss, before the step used it; `share_changed`, the latter over the former; `bags`
      that the ids make, and `bags_changed`, which had such an id. Numbers are those of all sessions
      on the graph.

    Raises:
      RuntimeError: The session is closed.

    Example:
      >>> graph_opt.refresh_metrics(session)["users"]["share_changed"]
      0.0174
    """
    inner = raw_session(session)
    read_refreshed(inner.graph, inner.run)
    tables = refreshed_of(inner.graph)
    found = RefreshMetrics()
    for one in tables:
        fields = dict(one.to_dict(), share_changed=one.share_changed)
        found[fields.pop("table")] = fields
    found.text = refreshed_text(tables)
    return found


def counts_refreshed(graph: Any) -> bool:
    """Whether a graph has ops that refresh rows and count them."""
    return bool(_counting(graph))


def read_refreshed(graph: Any, run: Any, begins: bool = False) -> None:
    """Notes what ops of a graph have counted so far.

    Args:
      graph: A `tf.Graph`.
      run: Runs a step on it.
      begins: Whether a session on it begins.
    """
    found = _counting(graph)
    if not found:
        return
    for one, (counts, made) in zip(found, run([one.outputs for one in found])):
        note_refreshed(graph, one.tables, counts, int(made), begins)


def _counting(graph: Any) -> List[_Counting]:
    version, found = _found.get(graph, (-1, []))
    if version != graph.version:
        version = graph.version
        found = [
            _Counting(
                [output.name for output in operation.outputs],
                [tf.compat.as_str(name) for name in operation.get_attr("tables")],
            )
            for operation in graph.get_operations()
            if operation.type == _OP
        ]
        _found[graph] = version, found
    return found
