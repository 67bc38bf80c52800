"""The priority of a thread; on Linux each thread has its own."""

from __future__ import annotations

import os
import sys

from graph_opt.ops.stage_spec import IDLE_PRIORITY

# The highest nice value, and so the lowest priority.
LOWEST = 19


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def lower(priority: int) -> str:
    """Lowers the priority of the calling thread, for good: few processes may raise it again.

    Threads that it starts inherit it.

    Args:
      priority: 1 to 19 is added to the nice value of the process; 20 is SCHED_IDLE, to run when no
        other thread wants to.

    Returns:
      '' if it was lowered, otherwise the reason why not.
    """
    if not sys.platform.startswith("linux"):
        return "threads have no priority of their own on {}".format(sys.platform)
    try:
        if priority == IDLE_PRIORITY:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        else:
            own = os.getpriority(os.PRIO_PROCESS, os.getpid())
            os.setpriority(os.PRIO_PROCESS, 0, min(LOWEST, own + priority))
    except OSError as error:  # for example from a seccomp filter
        return str(error)
    return ""
