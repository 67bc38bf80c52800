"""Which task a device string refers to."""

from __future__ import annotations

import functools
from typing import Any, Optional

from graph_opt.compat import tf


def task_of(device: str) -> Optional[str]:
    """The CPU of the device's task; None for a GPU or a device without job and task.

    Example:
      >>> task_of("/job:ps/task:1")
      '/job:ps/task:1/device:CPU:0'
    """
    spec = _parsed(device)
    return on_cpu(device) if spec.device_type in (None, "CPU") else None


def on_cpu(device: str) -> Optional[str]:
    """The CPU of the device's task, even if the device is a GPU; None without job and task."""
    spec = _parsed(device)
    if spec.job is None or spec.task is None:
        return None
    return "/job:{}/task:{}/device:CPU:0".format(spec.job, spec.task)


def job_of(device: str) -> Optional[str]:
    """The job that a device names; None if it names none."""
    job: Optional[str] = _parsed(device).job
    return job


def runs_on_cpu(device: str) -> bool:
    """Whether what has this device runs on a CPU; without one, if there is no GPU here."""
    kind = _parsed(device).device_type
    if kind is None:
        return not tf.config.experimental.list_physical_devices("GPU")
    return bool(kind == "CPU")


@functools.lru_cache(maxsize=1024)  # A graph has few devices, and a parse takes microseconds.
def _parsed(device: str) -> Any:
    if not device:
        return tf.DeviceSpec()
    try:
        return tf.DeviceSpec.from_string(device)
    except ValueError as error:  # TensorFlow lets no such device into a graph, but files have any.
        raise tf.errors.InvalidArgumentError(
            None, None, "a node's device is {!r}, which is not a device".format(device)
        ) from error
