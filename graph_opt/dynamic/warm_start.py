"""`tf.train.init_from_checkpoint` and warm starts of dynamic tables: by variable, name or scope.

Slots come along as they do in TensorFlow: those that a scope has when the function is called, and
those that are named.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import (
    PartitionedVariable,
    VariableOfResource,
    on_device_of,
)
from graph_opt.compat.savers import initialize_from_checkpoints_with
from graph_opt.dynamic.saving import restored, whole_name
from graph_opt.ops.dynamic_checkpoint import TABLE, Stored
from graph_opt.table_files.dynamic_tensors import KEYS

_KINDS = (KEYS, "")
_PARTS = ("", "/part_0")


class _Start(NamedTuple):
    """What a slot starts as.

    Attributes:
      prefix: Of the checkpoint.
      stored: A name in it.
      before: The initializer that the slot had.
    """

    prefix: str
    stored: str
    before: Any


def start_from_checkpoints() -> None:
    """From now on, `tf.train.init_from_checkpoint` knows dynamic tables."""
    initialize_from_checkpoints_with(_initialize)


def _initialize(prefix: str, stored: str, target: Any) -> bool:
    """Initializes tables and slots from a checkpoint; returns whether that is all there is to do.

    Args:
      prefix: Of the checkpoint.
      stored: A name in it, or a scope that ends with a slash.
      target: A variable, the parts of one, or a name or scope in the graph.
    """
    if not isinstance(target, str):
        found = _tables_and_slots(target)
        for variable in found:
            _start(prefix, stored, variable)
        return bool(found)
    every = [one for one in tf.global_variables() if isinstance(one, VariableOfResource)]
    named = [one for one in every if target in (_name(one), one.op.name)]
    for variable in named:
        _start(prefix, stored, variable)
    if named or not stored.endswith("/"):
        return bool(named)
    # Slots need the rows of their tables.
    for variable in sorted(every, key=_is_slot):
        name = _name(variable)
        if target == "/" or name.startswith(target):
            below = name if target == "/" else name[len(target) :]
            _start(prefix, below if stored == "/" else stored + below, variable)
    return False


def _tables_and_slots(target: Any) -> List[Any]:
    if isinstance(target, PartitionedVariable):
        return list(target.parts)
    listed = target if isinstance(target, (list, tuple)) else [target]
    return [one for one in listed if isinstance(one, VariableOfResource)]


def _is_slot(variable: Any) -> bool:
    return hasattr(variable, "table")


def _name(variable: Any) -> str:
    """Name of a whole table, or of its slot."""
    table = variable.table if _is_slot(variable) else variable
    name: str = variable.op.name.replace(table.table_key, table.table_name, 1)
    return name


def _start(prefix: str, stored: str, variable: Any) -> None:
    """Has the initializer of a table or slot read what the checkpoint has under a name."""
    if _is_slot(variable):
        before = variable.initializer if variable.start is None else variable.start.before
        variable.start = _Start(prefix, stored, before)
        _read_first(prefix, stored, variable, before)
        return
    _read_first(prefix, stored, variable, variable.initializer)
    for slot in variable.slots.values():
        if slot.start is not None:  # before its table was, whose keys it needs
            _read_first(slot.start.prefix, slot.start.stored, slot, slot.start.before)


def _read_first(prefix: str, stored: str, variable: Any, initializer: Any) -> None:
    """Reads a table or slot once it was initialized, and the slot's table, too."""
    table = variable.table if _is_slot(variable) else variable
    name, below = stored, ""
    if _is_slot(variable):
        name, slash, slot = stored.rpartition("/")
        below = slash + slot
    name = whole_name(name, table)
    reader = tf.train.load_checkpoint(prefix)
    if not any(reader.has_tensor(name + part + below + kind) for part in _PARTS for kind in _KINDS):
        raise ValueError(
            "'{}' has no {} {!r} to start {!r} as".format(
                prefix, "slot" if below else "table", name + below, _name(variable)
            )
        )
    before = [table.initializer, initializer]
    slots = [variable] if below else []
    with tf.control_dependencies(before), on_device_of(table.handle):
        names, forms = [TABLE + below for _ in slots], [slot.stored for slot in slots]
        wanted = Stored(name, names, table.key_dtype, slots=forms)
        handles = [slot.handle for slot in slots]
        variable.initialize_by(restored(prefix, table, handles, wanted, rows=not below))
