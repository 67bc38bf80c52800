"""`tf.train.init_from_checkpoint` and warm starts of dynamic tables: by variable, name or scope."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import PartitionedVariable, VariableOfResource
from graph_opt.compat.savers import initialize_from_checkpoints_with
from graph_opt.dynamic.saving import restored_rows, whole_name

_KINDS = ("-keys", "/part_0-keys", "", "/part_0")


def start_from_checkpoints() -> None:
    """From now on, `tf.train.init_from_checkpoint` knows dynamic tables."""
    initialize_from_checkpoints_with(_initialize)


def _initialize(prefix: str, stored: str, target: Any) -> bool:
    """Initializes tables from a checkpoint; returns whether that is all there is to do.

    Args:
      prefix: Of the checkpoint.
      stored: A name in it, or a scope that ends with a slash.
      target: A variable, the parts of one, or a name or scope in the graph.
    """
    if isinstance(target, str):
        tables = [one for one in tf.global_variables() if _is_table(one)]
        named = [one for one in tables if target in (one.table_name, one.table_key)]
        for table in named:
            _start(prefix, stored, table)
        if named or not stored.endswith("/"):
            return bool(named)
        for table in tables:
            if target == "/" or table.table_name.startswith(target):
                name = table.table_name[0 if target == "/" else len(target) :]
                _start(prefix, name if stored == "/" else stored + name, table)
        return False
    parts = _parts(target)
    for part in parts:
        _start(prefix, stored, part)
    return bool(parts)


def _parts(target: Any) -> List[Any]:
    if isinstance(target, PartitionedVariable):
        return list(target.parts)
    listed = target if isinstance(target, (list, tuple)) else [target]
    return list(listed) if listed and all(map(_is_table, listed)) else []


def _is_table(variable: Any) -> bool:
    return isinstance(variable, VariableOfResource) and not hasattr(variable, "table")


def _start(prefix: str, stored: str, table: Any) -> None:
    """Has the table's initializer read what the checkpoint has under a name."""
    name = whole_name(stored, table)
    reader = tf.train.load_checkpoint(prefix)
    if not any(reader.has_tensor(name + kind) for kind in _KINDS):
        raise ValueError(
            "'{}' has no table {!r} to start {!r} as".format(prefix, name, table.table_name)
        )
    table.initialize_by(restored_rows(prefix, name, table, [table.initializer]))
