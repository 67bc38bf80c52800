"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from typing import Any, Dict

import tensorflow.compat.v1 as tf

_BYTES_PER_GIB = 1 << 30
_BYTES_PER_KIB = 1 << 10


def machine() -> Dict[str, Any]:
    """Cores this process may use, CPU model, memory in GiB and TensorFlow's version.

    Example:
        >>> machine()
        {'cores': 4, 'cpu': '...', 'memory_gib': 23, 'tensorflow': '2.15.1'}
    """
    return {
        "cores": cores(),
        "cpu": _cpu_model(),
        "memory_gib": _memory_bytes() // _BYTES_PER_GIB,
        "tensorflow": tf.version.VERSION,
    }


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def available_bytes() -> int:
    """Memory that new processes can have without swapping."""
    with open("/proc/meminfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("MemAvailable"):
                return int(line.split()[1]) * _BYTES_PER_KIB
    return _memory_bytes()


def _cpu_model() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()  # ARM's /proc/cpuinfo has no model name


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
