"""Which task a device string refers to."""

from __future__ import annotations

from typing import Optional

from graph_opt.compat import tf


def task_of(device: str) -> Optional[str]:
    """The CPU of the device's task; None for a GPU or a device without job and task.

    Example:
      >>> task_of("/job:ps/task:1")
      '/job:ps/task:1/device:CPU:0'
    """
    spec = tf.DeviceSpec.from_string(device) if device else tf.DeviceSpec()
    return on_cpu(device) if spec.device_type in (None, "CPU") else None


def on_cpu(device: str) -> Optional[str]:
    """The CPU of the device's task, even if the device is a GPU; None without job and task."""
    spec = tf.DeviceSpec.from_string(device) if device else tf.DeviceSpec()
    if spec.job is None or spec.task is None:
        return None
    return "/job:{}/task:{}/device:CPU:0".format(spec.job, spec.task)


def runs_on_cpu(device: str) -> bool:
    """Whether what has this device runs on a CPU; without one, if there is no GPU here."""
    kind = tf.DeviceSpec.from_string(device).device_type if device else None
    return kind == "CPU" or (kind is None and not tf.config.list_physical_devices("GPU"))
