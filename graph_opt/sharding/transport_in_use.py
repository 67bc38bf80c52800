"""How the ranks of this process reach each other: chosen once, whatever surface asks first."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Iterator, Optional

from graph_opt.reporting.stderr import say
from graph_opt.sharding.guard import guard_process
from graph_opt.sharding.horovod_transport import HorovodTransport, horovod
from graph_opt.sharding.own_rows import without_own_rows
from graph_opt.sharding.transport import OneRank, Transport

HOROVOD = "horovod"
SINGLE = "single"

_RANKS_OF_LAUNCHERS = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_HOROVOD_MODULE = "horovod.tensorflow"

_alone = OneRank()
_process: Optional[Transport] = None
_comm_tool: Optional[str] = None
_of_thread = threading.local()


def reach_ranks(comm_tool: str) -> Transport:
    """Chooses how ranks reach each other in this process; the same choice again does nothing.

    Args:
      comm_tool: `horovod`, after `horovod.tensorflow.init()`; or `single` for one rank. Where
        Horovod is not installed and no launcher has started several ranks, both mean one rank.

    Returns:
      What is in use from now on.

    Raises:
      ValueError: There is no such tool.
      RuntimeError: Horovod is not initialized, or another tool was chosen before.
      ImportError: A launcher has started several ranks, but Horovod is not installed.
    """
    global _process, _comm_tool
    if comm_tool not in (HOROVOD, SINGLE):
        raise ValueError("comm_tool is {!r}; choose 'horovod' or 'single'".format(comm_tool))
    if _comm_tool not in (None, comm_tool):
        raise RuntimeError(
            "{!r} was chosen before: a process has one way to reach the others".format(_comm_tool)
        )
    if _comm_tool is None:
        _process = OneRank() if comm_tool == SINGLE else _horovod_or_one_rank()
        _comm_tool = comm_tool
        guard_process(_process)
        _process.keep_apart(without_own_rows)
    assert _process is not None
    return _process


def transport_or_init() -> Transport:
    """How ranks reach each other; where nobody has chosen, as the launcher of the process suggests.

    Ranks reach each other through Horovod, which is initialized unless it is, if the script has
    imported `horovod.tensorflow` or a launcher has started several ranks. Otherwise there is one
    rank.

    Raises:
      ImportError: A launcher has started several ranks, but Horovod is not installed.
    """
    if _in_use() is None and (_HOROVOD_MODULE in sys.modules or launched_ranks() > 1):
        horovod().init()  # once it is, this does nothing
        reach_ranks(HOROVOD)
    return transport_in_use()


@contextlib.contextmanager
def communicating_through(transport: Transport) -> Iterator[None]:
    """In this thread and block, ranks reach each other in this way; no `reach_ranks` is needed."""
    before = getattr(_of_thread, "transport", None)
    _of_thread.transport = transport
    try:
        yield
    finally:
        _of_thread.transport = before


def transport_in_use() -> Transport:
    """How ranks reach each other; a process that is alone need not have chosen.

    Raises:
      RuntimeError: Nobody has chosen, and there are several ranks.
    """
    transport = _in_use()
    if transport is not None:
        return transport
    if max(launched_ranks(), _ranks_of_horovod()) > 1:
        raise RuntimeError("call sok.init(), or sok.Init() of release 1, first")
    return _alone  # which leaves the choice to a later `reach_ranks`


def transport_if_chosen() -> Optional[Transport]:
    """How ranks reach each other; None if nobody has chosen."""
    return _in_use()


def launched_ranks() -> int:
    """Number of processes that a launcher of ranks has started; 1 without one."""
    return max(int(os.environ.get(name, "1")) for name in _RANKS_OF_LAUNCHERS)


def _ranks_of_horovod() -> int:
    module = sys.modules.get(_HOROVOD_MODULE)
    return int(module.size()) if module is not None and module.is_initialized() else 1


def _in_use() -> Optional[Transport]:
    return getattr(_of_thread, "transport", None) or _process


def _horovod_or_one_rank() -> Transport:
    try:
        return HorovodTransport()
    except ImportError:
        if launched_ranks() > 1:
            raise
        say("Horovod is not installed: there is one rank")
        return OneRank()
