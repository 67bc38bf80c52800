"""Tables that a script wants sharded across ranks: sessions with several ranks divide them."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import tf
from graph_opt.compat.graph_collections import export_as_names
from graph_opt.compat.variables import parts_of
from graph_opt.reporting.warnings_given import warn_once

MARKED_TABLES = "graph_opt_sharded_tables"
export_as_names(MARKED_TABLES)

_PARTITIONED = (
    "the table of '{}' is partitioned, so that all ranks have the whole of it: the strategy "
    "'collective' divides tables that are made without a partitioner"
)
_marks_lookups = False


def mark_table(table: Any) -> None:
    """Asks for a table to be divided.

    Args:
      table: A variable of the current graph. What cannot be divided is ignored: partitioned
        variables, tensors, variables that are not matrices or not trained.
    """
    graph = tf.get_default_graph()
    if not _can_be_marked(table) or any(one is table for one in marked_tables(graph)):
        return
    graph.add_to_collection(MARKED_TABLES, table)


def marked_tables(graph: Any) -> List[Any]:
    """The variables of a graph that were marked, also before it was exported and imported."""
    marked = graph.get_collection(MARKED_TABLES)
    names = {one for one in marked if isinstance(one, str)}
    if not names:
        return list(marked)
    variables = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    imported = [one for one in variables if one.name in names]
    return [one for one in marked if not isinstance(one, str)] + imported


def is_to_be_sharded(table: Any) -> bool:
    """Whether a table that a lookup is about to read is marked.

    Group lookups mark the tables that they read, if `mark_lookups` was called with True.

    Args:
      table: A variable or tensor of the current graph, or its parts.
    """
    parts = list(table) if isinstance(table, (list, tuple)) else parts_of(table)
    if _marks_lookups and len(parts) == 1:
        mark_table(parts[0])
    elif _marks_lookups and parts:
        warn_once(_PARTITIONED.format(parts[0].name), tf.get_default_graph())
    return any(one is part for one in marked_tables(tf.get_default_graph()) for part in parts)


def mark_lookups(marks: bool) -> None:
    """From now on, whether group lookups mark the tables that they read."""
    global _marks_lookups
    _marks_lookups = marks


def _can_be_marked(table: Any) -> bool:
    is_variable = hasattr(table, "initializer") and hasattr(table, "trainable")
    if not is_variable or hasattr(table, "keyed_rows") or not table.trainable:
        return False
    return tf.as_dtype(table.dtype).base_dtype.is_floating and tf.TensorShape(table.shape).rank == 2
