"""The priority of a thread, which on Linux is its own and not its process's."""

from __future__ import annotations

import os
import sys

from graph_opt.ops.stage_spec import IDLE_PRIORITY


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def lower(priority: int) -> str:
    """Lowers the priority of the calling thread: for good, as few processes may raise one again.

    Threads that it starts inherit it.

    Args:
      priority: 1 to 19 is a nice value; 20 is SCHED_IDLE: only where no other thread wants to run.

    Returns:
      '' if that was done, else why not.
    """
    if not sys.platform.startswith("linux"):
        return "threads have no priority of their own on {}".format(sys.platform)
    try:
        if priority == IDLE_PRIORITY:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.setpriority(os.PRIO_PROCESS, 0, priority)
    except OSError as error:  # a seccomp filter refuses it, for one
        return str(error)
    return ""
