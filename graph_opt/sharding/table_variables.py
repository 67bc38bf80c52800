"""The variables of a graph that hold rows of divided tables."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, MutableSet, NamedTuple, Set

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


class TableVariables(NamedTuple):
    """Those variables, by the names of their ops.

    Attributes:
      parts: What tables and their slots have of whole ones.
      companions: What is never saved without the rows of a table.
    """

    parts: Parts
    companions: Set[str]


def note_graph(graph: Any) -> None:
    """Makes a graph known that has, or will have, such variables."""
    _graphs.add(graph)


def has_tables(graph: Any) -> bool:
    """Whether a graph is one of these."""
    return graph in _graphs


def note_divided(graph: Any, table: Any) -> None:
    """Makes a `DividedVariable` known, which may be in none of the graph's collections."""
    kept_with(graph, "divided tables", list).append(table)


def table_variables(graph: Any) -> TableVariables:
    """Tables, and the slots that any optimizer has made for them."""
    tables: List[Any] = kept_with(graph, "divided tables", list)
    variables = {table.op.name: table for table in tables}
    for collection in COLLECTIONS:
        for variable in graph.get_collection_ref(collection):
            if hasattr(variable, "op"):
                variables.setdefault(variable.op.name, variable)
    for table in tables:
        slots = {name: one for name, one in variables.items() if is_slot_name(name, table.op.name)}
        table.own_slots({name: one for name, one in slots.items() if not table_parts(one)})
    parts = {name: table_parts(one) for name, one in variables.items()}
    companions = {one.op.name for table in tables for one in table.companions}
    return TableVariables({name: of for name, of in parts.items() if of}, companions)


def is_slot_name(name: str, table: str) -> bool:
    """Whether a slot may have a name: the table's, with the optimizer's before or behind it."""
    return name != table and "/{}/".format(table) in "/{}/".format(name)
