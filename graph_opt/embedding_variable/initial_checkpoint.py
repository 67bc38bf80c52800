"""`tf.train.init_from_checkpoint` for dynamic tables."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import on_device_of
from graph_opt.dynamic.partitioned import PartitionedDynamicTable
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.ops import dynamic_checkpoint

# Saved on import, because `install` replaces this name with our own function.
_stock_init = tf.train.init_from_checkpoint
_KEYS = ("{}-keys", "{}/part_0-keys")


def init_from_checkpoint(ckpt_dir_or_file: str, assignment_map: Dict[str, Any]) -> None:
    """`tf.train.init_from_checkpoint`, also for dynamic tables.

    Their initializers read the rows. Slots start anew.

    Args:
      ckpt_dir_or_file: As TensorFlow's.
      assignment_map: As TensorFlow's: from names or scopes in the checkpoint to variables, lists of
        parts, names or scopes.

    Raises:
      ValueError: The checkpoint has no such table.
    """
    stored = {name for name, _ in tf.train.list_variables(ckpt_dir_or_file)}
    prefix = tf.train.latest_checkpoint(ckpt_dir_or_file) or ckpt_dir_or_file
    others = {}
    for source, target in assignment_map.items():
        tables = _tables_named(target)
        for part in tables:
            _start_as(part, prefix, _stored_name(source, part, stored, ckpt_dir_or_file))
        if isinstance(target, str) and target.endswith("/"):
            for part in _all_parts():
                name = source.lstrip("/") + part.table_name[len(target.lstrip("/")) :]
                if part.table_name.startswith(target.lstrip("/")) and _has(stored, name):
                    _start_as(part, prefix, name)
        if not tables:
            others[source] = target
    if others:
        _stock_init(ckpt_dir_or_file, others)


def _all_parts() -> List[DynamicTableVariable]:
    variables = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    return [one for one in variables if isinstance(one, DynamicTableVariable)]


def _tables_named(target: Any) -> List[DynamicTableVariable]:
    """The parts of the table that a script names, in one of many ways; none for other variables."""
    if isinstance(target, str):
        return [part for part in _all_parts() if part.table_name == target]
    if isinstance(target, PartitionedDynamicTable):
        return target.parts
    candidates = target if isinstance(target, (list, tuple)) else [target]
    return [one for one in candidates if isinstance(one, DynamicTableVariable)]


def _has(stored: Any, name: str) -> bool:
    return any(pattern.format(name) in stored for pattern in _KEYS) or name in stored


def _stored_name(source: str, part: DynamicTableVariable, stored: Any, checkpoint: str) -> str:
    name: Optional[str] = source
    if source.endswith("/"):
        name = source.lstrip("/") + part.table_name
    if not _has(stored, str(name)):
        raise ValueError(
            "'{}' has no table {!r} to start {!r} as".format(checkpoint, name, part.table_name)
        )
    return str(name)


def _start_as(part: DynamicTableVariable, prefix: str, stored_name: str) -> None:
    with tf.control_dependencies([part.initializer]), on_device_of(part.handle):
        restored = dynamic_checkpoint.restore(
            prefix,
            part.handle,
            [],
            tensor_name=stored_name,
            slot_names=[],
            part=part.part,
            num_parts=part.num_parts,
            owner_rule=part.owner_rule,
            key_dtype=part.key_dtype,
        )
    part.initialize_by(restored)
