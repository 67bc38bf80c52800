"""Which lookups no group can do."""

from __future__ import annotations

from typing import Any, Set

from graph_opt.compat import tf

_LOCAL_JOB = "localhost"


def is_elsewhere(table_devices: Set[str], ids_device: str) -> bool:
    """Whether a table is on another task than its ids, or on several devices.

    A group would have to send every lookup's ids and results on their own. Lookups by TensorFlow
    are what `do_group_embedding` packs into one transfer for each parameter server.

    Args:
      table_devices: Device strings of the table's parts.
      ids_device: That of the ids.

    Example:
      >>> is_elsewhere({"/job:ps/task:0"}, "/job:worker/task:0")
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
