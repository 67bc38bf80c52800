"""Which lookups cannot be part of a group."""

from __future__ import annotations

from typing import Any, Set

from graph_opt.compat import tf

_LOCAL_JOB = "localhost"


def needs_separate_lookup(table_devices: Set[str], ids_device: str) -> bool:
    """Whether a table is on another task than its ids, or on several devices.

    A group would send the ids and results of each lookup separately, whereas `do_group_embedding`
    packs TensorFlow's own lookups into one transfer per parameter server.

    Args:
      table_devices: Device strings of the table's parts.
      ids_device: Device string of the ids.

    Example:
      >>> needs_separate_lookup({"/job:ps/task:0"}, "/job:worker/task:0")
      True
    """
    if len(table_devices) > 1:
        return True
    table = _spec(next(iter(table_devices)))
    if table.job in (None, _LOCAL_JOB):
        return False
    ids = _spec(ids_device)
    return (table.job, table.replica or 0, table.task or 0) != (
        ids.job,
        ids.replica or 0,
        ids.task or 0,
    )


def _spec(device: str) -> Any:
    return tf.DeviceSpec.from_string(device) if device else tf.DeviceSpec()
