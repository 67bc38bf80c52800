"""What sessions run, between steps, to know how many rows steps have refreshed.

    main       Refresh: counts ids and bags, by table
    between    GroupEmbeddingRefreshCounts ─> counts

They are kept by the scope of the op that counts, on its device.
"""

from __future__ import annotations

from typing import Any, Container, Dict, Sequence

from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.op_names import REFRESH_COUNTS

_COUNTS = 6


def add_refresh_counts(
    writer: NodeWriter, lookup: Any, variables: Sequence[str], bounded: Container[str], **place: Any
) -> Dict[str, Any]:
    """Adds the node that returns counts, under the scope's name.

    Args:
      writer: On the device, and in the scope, of the node that refreshes rows.
      lookup: The NodeDef that has the names of the tables.
      variables: Those of all tables, in its order.
      bounded: The variables whose rows are refreshed.
      **place: More attributes of the node that is added.

    Returns:
      The attributes by which the node that refreshes rows counts.
    """
    names = [each.decode("utf-8") for each in lookup.attr["table_names"].list.s]
    shards = [1] * len(names)
    if "table_shards" in lookup.attr:  # To read what is not there would add it.
        shards = list(lookup.attr["table_shards"].list.i) or shards
    tables = []
    first = 0
    for name, count in zip(names, shards):
        tables.append(name if variables[first] in bounded else "")
        first += count
    counted: Dict[str, Any] = {"refresh_counts": writer.scope}
    writer.call("counts", REFRESH_COUNTS, tables=tables, **counted, **place)
    return counted
