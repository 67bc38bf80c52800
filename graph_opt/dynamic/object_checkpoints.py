"""`tf.train.Checkpoint`, and whatever saves by it, of dynamic tables and their slots.

Each variable is saved on its own there, and restored in any order: rows of a slot make the rows of
their keys, and rows of the table leave slots as they are.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import on_device_of
from graph_opt.dynamic.saving import is_sharded
from graph_opt.ops import dynamic_content

_KEYS, _VALUES, _FREQUENCIES, _VERSIONS = "keys", "values", "freqs", "versions"
# Of keys that a filter has counted, and not given a row.
_FILTERED = ("keys_filtered", "freqs_filtered", "versions_filtered")


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
        with on_device_of(table.handle):
            tensors.update(zip(_FILTERED, dynamic_content.export_filtered(table.handle)))
    return tensors


def restore_table(table: Any, tensors: Mapping[str, tf.Tensor]) -> Any:
    """Gives a table exactly the rows and counts that `table_tensors` gave, and a slot its rows.

    The table must be initialized.
    """
    _check(table)
    keys, values = tensors[_KEYS], tensors[_VALUES]
    with on_device_of(table.handle):
        if _is_slot(table):
            return dynamic_content.assign_rows(table.handle, keys, values)
        there = dynamic_content.export_rows(table.handle).keys
        gone = tf.raw_ops.ListDiff(x=there, y=keys)[0]
        counted = dynamic_content.export_filtered(table.handle)
        erased = dynamic_content.erase_rows(table.handle, gone)
        with tf.control_dependencies([] if erased is None else [erased]):
            imported = dynamic_content.import_rows(
                table.handle,
                keys,
                values,
                frequencies=tensors[_FREQUENCIES],
                versions=tensors[_VERSIONS],
            )
        forgotten = counted._replace(frequencies=tf.zeros_like(counted.frequencies))
        filtered = zip(forgotten, [tensors[name] for name in _FILTERED])
        with tf.control_dependencies([] if imported is None else [imported]):
            return dynamic_content.import_filtered(
                table.handle, *[tf.concat(both, 0) for both in filtered]
            )


def _is_slot(variable: Any) -> bool:
    return hasattr(variable, "table")


def _check(variable: Any) -> None:
    if is_sharded(variable):
        raise NotImplementedError(
            "{!r} has rows on several ranks: save it by sok.CheckpointSaver or sok.dump".format(
                variable.name
            )
        )
