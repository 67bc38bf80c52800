"""Sharded tables in graphs that were imported (`tf.train.import_meta_graph`).

An imported graph has variables that nobody made here. So the node of a sharded table says how its
rows are divided, and whose they are: an attribute that goes wherever the graph goes.
"""

from __future__ import annotations

import json
import weakref
from typing import Any, Dict, List, MutableMapping, Tuple

from graph_opt.compat import tf
from graph_opt.compat.graph_growth import operations_from
from graph_opt.compat.live_graph import set_attribute
from graph_opt.sharding.keyed_rows import ShardedRows
from graph_opt.sharding.placement import ModRows, RowsOnRank, RowsRule
from graph_opt.sharding.table_variables import COLLECTIONS, is_slot_name
from graph_opt.sharding.transport import Transport

_ATTRIBUTE = "_graph_opt_rows"
_VARIABLE = "VarHandleOp"

_looked_at: MutableMapping[Any, Tuple[int, int]] = weakref.WeakKeyDictionary()


def describe_rows(graph: Any, table: Any, transport: Transport) -> None:
    """Writes on the node of a `ShardedVariable` how its rows are divided."""
    rule = getattr(table, "rows", None)
    described = {
        "rule": type(rule).__name__,
        "num_rows": getattr(rule, "num_rows", 0),
        "owner": getattr(rule, "rank", 0),
        "rank": transport.rank,
        "size": transport.size,
    }
    value = tf.AttrValue(s=json.dumps(described, sort_keys=True).encode("utf-8"))
    set_attribute(graph, table.handle.op.name, _ATTRIBUTE, value)


def has_imported_tables(graph: Any) -> bool:
    """Whether nodes of sharded tables were added since this was last asked."""
    version, seen = _looked_at.get(graph, (-1, 0))
    if version == graph.version:
        return False
    version, new = graph.version, operations_from(graph, seen)
    _looked_at[graph] = version, seen + len(new)
    return any(_is_table(operation) for operation in new)


def adopt_imported_tables(graph: Any, transport: Transport) -> None:
    """Lets savers know the rows of imported tables and of their slots.

    Raises:
      tf.errors.FailedPreconditionError: The graph is that of another rank, or of another number of
        ranks, or has tables that cannot be imported.
    """
    tables: Dict[str, Any] = {}
    for operation in graph.get_operations():
        if _is_table(operation):
            described = json.loads(operation.get_attr(_ATTRIBUTE).decode("utf-8"))
            tables[str(operation.name)] = _rule(str(operation.name), described, transport)
    for variable in _variables(graph):
        name = variable.op.name
        for table, rule in tables.items():
            is_part = name == table or (
                is_slot_name(name, table)
                and variable.shape.rank == 2
                and variable.shape[0] == rule.num_local_rows(transport.rank)
            )
            if is_part and not hasattr(variable, "keyed_rows"):
                variable.keyed_rows = ShardedRows(name, variable, rule, transport.rank)


def _rule(name: str, described: Dict[str, Any], transport: Transport) -> RowsRule:
    rank, size = described["rank"], described["size"]
    if (rank, size) != (transport.rank, transport.size):
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            "the imported graph is that of rank {} of {}, with its rows of '{}'; this is rank {} "
            "of {}: build the graph instead, and restore the checkpoint's values".format(
                rank, size, name, transport.rank, transport.size
            ),
        )
    if described["rule"] == ModRows.__name__:
        return ModRows(described["num_rows"], size)
    if described["rule"] == RowsOnRank.__name__:
        return RowsOnRank(described["num_rows"], size, described["owner"])
    raise tf.errors.FailedPreconditionError(
        None,
        None,
        "'{}' of the imported graph has rows by key, or of several tables, which savers know only "
        "where the graph was built: build it instead, and restore the checkpoint's "
        "values".format(name),
    )


def _is_table(operation: Any) -> bool:
    return operation.type == _VARIABLE and _ATTRIBUTE in operation.node_def.attr


def _variables(graph: Any) -> List[Any]:
    found = {}
    for collection in COLLECTIONS:
        for variable in graph.get_collection_ref(collection):
            if hasattr(variable, "op"):
                found[id(variable)] = variable
    return list(found.values())
