"""What dynamic tables hold and have done: rows, bytes, and where lookups found rows."""

from __future__ import annotations

import json
import weakref
from typing import Any, Dict, MutableMapping

from graph_opt.compat import tf
from graph_opt.compat.callables import raw_session
from graph_opt.compat.live_graph import unfinalized
from graph_opt.ops import dynamic_content

_INITIALIZE = "DynamicTableInitialize"
_MEGABYTE = 1e6
_nodes: MutableMapping[Any, Dict[str, Any]] = weakref.WeakKeyDictionary()


class TableMetrics(Dict[str, Dict[str, float]]):
    """Metrics of each table by its name; as a string, a line for each."""

    def __str__(self) -> str:
        return "\n".join(_line(name, self[name]) for name in sorted(self))


def table_metrics(session: Any) -> TableMetrics:
    """What the dynamic tables of a session hold, and have done since they were made.

    Args:
      session: An open session, monitored or not.

    Returns:
      For each table, or part of one, that is initialized: `keys` that have a row; `inserted`,
      `removed` and `evicted` (removed by a rule) keys; `found`, `not_found` and `found_in_file`
      occurrences of keys; `hit_rate` and `memory_hit_rate`, the shares of them that had a row, and
      that had one in memory, 1 before the first; `promoted` rows, which moved from the file into
      memory; `filtered_keys`, which wait for a row; `holds`, lookups whose rows are still in use;
      and bytes: `row_bytes` in all, `file_bytes` of the disk, `index_bytes`, `metadata_bytes`,
      `policy_bytes`, `free_row_bytes`, `given_back_bytes`.

    Raises:
      RuntimeError: The session is closed.

    Example:
      >>> print(graph_opt.table_metrics(session))
      users: 60000 rows, 1.9 MB in memory, 5.9 MB in a file; 98.2% of keys found, 91.0% in memory
    """
    inner = raw_session(session)
    found = TableMetrics()
    for name, node in _metrics_nodes(inner.graph).items():
        try:
            found[name] = _with_rates(json.loads(inner.run(node)))
        except tf.errors.FailedPreconditionError:
            continue
    return found


def _metrics_nodes(graph: Any) -> Dict[str, Any]:
    """The op that reads each table's metrics, made at the first call."""
    nodes = _nodes.setdefault(graph, {})
    for op in graph.get_operations():
        if op.type != _INITIALIZE or op.inputs[0].op.name in nodes:
            continue
        handle = op.inputs[0]
        with unfinalized(graph), graph.as_default(), tf.control_dependencies(None):
            with tf.device(handle.device), tf.name_scope(None):
                nodes[handle.op.name] = dynamic_content.table_metrics(
                    handle, handle.op.name + "/Metrics"
                )
    return nodes


def _with_rates(metrics: Dict[str, float]) -> Dict[str, float]:
    looked_up = metrics["found"] + metrics["not_found"]
    in_memory = metrics["found"] - metrics["found_in_file"]
    metrics["hit_rate"] = metrics["found"] / looked_up if looked_up else 1.0
    metrics["memory_hit_rate"] = in_memory / looked_up if looked_up else 1.0
    return metrics


def _line(name: str, metrics: Dict[str, float]) -> str:
    stored = metrics["row_bytes"] + metrics["free_row_bytes"]
    in_memory = max(0.0, stored - metrics["file_bytes"])  # slabs in the file may be partly used
    places = "{:.1f} MB in memory".format(in_memory / _MEGABYTE)
    if metrics["file_bytes"]:
        places += ", {:.1f} MB in a file".format(metrics["file_bytes"] / _MEGABYTE)
    text = "{}: {:.0f} rows, {}; {:.1%} of keys found, {:.1%} in memory".format(
        name, metrics["keys"], places, metrics["hit_rate"], metrics["memory_hit_rate"]
    )
    if metrics["evicted"]:
        text += "; {:.0f} evicted".format(metrics["evicted"])
    if metrics["filtered_keys"]:
        text += "; {:.0f} wait for a row".format(metrics["filtered_keys"])
    return text
