"""`tf.train.Checkpoint`, and whatever saves by it, of dynamic tables and their slots.

Each variable is saved on its own there, and restored in any order: rows of a slot make the rows of
their keys, and rows of the table leave slots as they are.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import on_device_of
from graph_opt.dynamic.saving import is_divided
from graph_opt.ops import dynamic_content

_KEYS, _VALUES, _FREQUENCIES, _VERSIONS = "keys", "values", "freqs", "versions"


def table_tensors(table: Any) -> Dict[str, tf.Tensor]:
    """What a checkpoint has of a table or a slot.

    Raises:
      NotImplementedError: Other ranks have rows of it, too.
    """
    _check(table)
    rows = table.export()
    tensors = {_KEYS: rows.keys, _VALUES: rows.values}
    if not _is_slot(table):
        tensors.update({_FREQUENCIES: rows.freqs, _VERSIONS: rows.versions})
    return tensors


def restore_table(table: Any, tensors: Mapping[str, tf.Tensor]) -> Any:
    """Gives a table, or a slot, exactly the rows that `table_tensors` gave.

    The table must be initialized.
    """
    _check(table)
    keys, values = tensors[_KEYS], tensors[_VALUES]
    with on_device_of(table.handle):
        if _is_slot(table):
            return dynamic_content.assign_rows(table.handle, keys, values)
        there = dynamic_content.export_rows(table.handle).keys
        gone = tf.raw_ops.ListDiff(x=there, y=keys)[0]
        erased = dynamic_content.erase_rows(table.handle, gone)
        with tf.control_dependencies([] if erased is None else [erased]):
            return dynamic_content.import_rows(
                table.handle,
                keys,
                values,
                frequencies=tensors[_FREQUENCIES],
                versions=tensors[_VERSIONS],
            )


def _is_slot(variable: Any) -> bool:
    return hasattr(variable, "table")


def _check(variable: Any) -> None:
    if is_divided(variable):
        raise NotImplementedError(
            "{!r} has rows on several ranks: save it by sok.CheckpointSaver or sok.dump".format(
                variable.name
            )
        )
