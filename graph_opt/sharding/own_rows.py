"""Variables of which each rank has rows of its own: sharded tables and their slots.

Scripts broadcast all their variables from rank 0 (`hvd.BroadcastGlobalVariablesHook`), and average
all gradients (`hvd.DistributedOptimizer`). These must be left alone.
"""

from __future__ import annotations

import weakref
from typing import Any, Iterable, List, MutableMapping, Sequence

# The attribute by which scripts of distributed-embeddings know a rank's own variables.
LOCAL = "de_local"

# By identity: in TensorFlow 2 variables are no keys.
_tables: MutableMapping[int, Any] = weakref.WeakValueDictionary()
_used = False


def note_table(table: Any) -> None:
    """Makes a table known here, for as long as it exists.

    Args:
      table: A `ShardedVariable`.
    """
    note_layer_use()
    _tables[id(table)] = table


def note_layer_use() -> None:
    """A table is made, or a layer without one is called: eagerly, graph_opt sees no more of it."""
    global _used
    _used = True


def layers_were_used() -> bool:
    """Whether this process has used graph_opt's own tables or layers, whatever its sessions do."""
    return _used


def without_own_rows(variables: Iterable[Any]) -> List[Any]:
    """The variables that all ranks have alike."""
    tables = list(_tables.values())
    own = {id(table) for table in tables}
    return [one for one in variables if id(one) not in own and not _is_slot(one, tables)]


def _is_slot(variable: Any, tables: Sequence[Any]) -> bool:
    """Optimizers name slots after the table, with names of their own before or behind it."""
    if hasattr(variable, "keyed_rows") or getattr(variable, LOCAL, False):
        return True
    return any(
        _is_named_after(variable, table) and _is_as_large(variable, table)
        for table in tables
        if _graph_of(table) is _graph_of(variable)
    )


def _is_named_after(variable: Any, table: Any) -> bool:
    name, of_table = (one.name.split(":")[0] for one in (variable, table))
    return name != of_table and "/{}/".format(of_table) in "/{}/".format(name)


def _is_as_large(variable: Any, table: Any) -> bool:
    # Not by `==`: with TensorFlow 1, a size that is not known equals nothing.
    shape, of_table = variable.shape, table.shape
    return bool(shape.rank == of_table.rank and shape.as_list() == of_table.as_list())


def _graph_of(variable: Any) -> Any:
    """None eagerly."""
    return getattr(variable, "graph", None)
