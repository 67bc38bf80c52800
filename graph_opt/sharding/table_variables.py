"""The variables of a graph that hold rows of sharded tables, which exist from the start."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, MutableSet

from graph_opt.compat import tf
from graph_opt.compat.graph_lifetime import kept_with
from graph_opt.sharding.keyed_rows import TablePart, table_parts

COLLECTIONS = (
    tf.GraphKeys.GLOBAL_VARIABLES,
    tf.GraphKeys.LOCAL_VARIABLES,
    tf.GraphKeys.TRAINABLE_VARIABLES,
)
Parts = Dict[str, List[TablePart]]

_graphs: MutableSet[Any] = weakref.WeakSet()


def note_graph(graph: Any) -> None:
    """Makes a graph known that has, or will have, such variables."""
    _graphs.add(graph)


def has_tables(graph: Any) -> bool:
    """Whether a graph is one of these."""
    return graph in _graphs


def note_sharded(graph: Any, table: Any) -> None:
    """Makes a `ShardedVariable` known, which may be in none of the graph's collections."""
    kept_with(graph, "sharded tables", list).append(table)


def table_variables(graph: Any) -> Parts:
    """Tables, and the slots that any optimizer has made for them, by the names of their ops.

    Of each, what it has of whole tables.
    """
    tables: List[Any] = kept_with(graph, "sharded tables", list)
    variables = {table.op.name: table for table in tables}
    for collection in COLLECTIONS:
        for variable in graph.get_collection_ref(collection):
            if hasattr(variable, "op"):
                variables.setdefault(variable.op.name, variable)
    for table in tables:
        slots = {name: one for name, one in variables.items() if is_slot_name(name, table.op.name)}
        table.own_slots({name: one for name, one in slots.items() if not table_parts(one)})
    parts = {
        name: [part for part in table_parts(one) if part.rows.fixed_rows is not None]
        for name, one in variables.items()
    }
    return {name: of for name, of in parts.items() if of}


def is_slot_name(name: str, table: str) -> bool:
    """Whether a slot may have a name: the table's, with the optimizer's before or behind it."""
    return name != table and "/{}/".format(table) in "/{}/".format(name)
