"""Reports, once per graph, what became of the sessions that were asked to optimize.

It writes to stderr, since scripts silence TensorFlow's log.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import sys
import threading
import weakref
from typing import Any, Callable, Deque, Iterator, List, MutableMapping, Optional, Tuple

from graph_opt.reporting.report import MICRO_BATCHES, Report
from graph_opt.reporting.session_report import TASK, ProcessReport, SessionReport
from graph_opt.reporting.stderr import say, say_for_all_ranks
from graph_opt.reporting.summary import details_wanted
from graph_opt.reporting.tuned_stages import tunings_said
from graph_opt.reporting.warnings_given import warnings_given
from graph_opt.sharding.own_rows import layers_were_used

# Some processes open sessions indefinitely, such as one that evaluates every checkpoint.
_MAX_SESSIONS_KEPT = 200
_RANK = "HOROVOD_RANK"
_ONE_BATCH = (
    "micro_batch_num has no effect: each step trains on one whole batch, which is a small one if "
    "the script has divided its batch size by that number, as scripts for DeepRec do"
)
_NONE_RAN = (
    "no session ran in this process, so nothing was optimized: graph_opt works on the graphs of "
    "tf.compat.v1 sessions, and leaves eager code and tf.function as they are"
)
_LAYERS_RAN = (
    "no session ran in this process: graph_opt's tables and layers work without one, but prefetch "
    "and fused updates are for the graphs of tf.compat.v1 sessions"
)


class _Log:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.sessions: Deque[SessionReport] = collections.deque(maxlen=_MAX_SESSIONS_KEPT)
        self.ran = False
        self.count = 0
        self.graphs: MutableMapping[Any, int] = weakref.WeakKeyDictionary()
        self.graph_count = 0
        self.read_more = "graph_opt.report() says why"
        self.listeners: List[Callable[[], None]] = []


_log = _Log()


def _reset_after_fork() -> None:
    """Gives a forked process an empty log, and a lock that no other thread holds."""
    _log.lock = threading.RLock()
    _log.sessions.clear()
    _log.count = 0


if hasattr(os, "register_at_fork"):  # Not on every system.
    os.register_at_fork(after_in_child=_reset_after_fork)


def note_session(session: Any, report: Optional[Report]) -> None:
    """Records what became of a session that is about to run, and says so if it is news.

    Args:
      session: The session.
      report: Its graph's report; None if no optimization was asked for.
    """
    with _log.lock:
        _log.ran = True
        if report is None or _is_known(session.graph, report):
            return
        _log.count += 1
        opened_as = type(session).__name__
        noted = SessionReport(_log.count, opened_as, _number_of(session.graph), report)
        _log.sessions.append(noted)
        more = "; " + _log.read_more if details_wanted(report) else ""
        say(noted.title + more)
        for line in _apart(report):
            say("session {}: {}".format(_log.count, line))
        listeners = list(_log.listeners)
    for listener in listeners:
        listener()


def session_reports() -> Tuple[SessionReport, ...]:
    """Returns what became of this process's sessions that were asked to optimize (the last 200).

    Returns:
      One entry per graph, or more if later sessions on it had another outcome, in the order in
      which they first ran.

    Example:
      >>> for session in graph_opt.session_reports():
      ...   print(session)
      session 1: 26 of 26 lookups fused into 2 ops
      ...
    """
    with _log.lock:
        return tuple(_log.sessions)


def say_if_none_ran() -> None:
    """Says that optimization was asked for but no session ran, unless the program has failed."""
    if not _log.ran and getattr(sys, "last_value", None) is None:
        say_for_all_ranks(_LAYERS_RAN if layers_were_used() else _NONE_RAN)


def process_report() -> ProcessReport:
    """Everything known about this process."""
    rank = os.environ.get(_RANK, "")
    number = int(rank) if rank.isdigit() else None
    task = os.environ.get(TASK, "")
    messages = (*warnings_given(), *tunings_said())
    return ProcessReport(os.getpid(), session_reports(), messages, number, task)


def tell_more_by(read_more: str, listener: Optional[Callable[[], None]] = None) -> None:
    """Changes where the log's lines say that the reasons can be found.

    Args:
      read_more: The end of such a line.
      listener: Called after each session that is recorded.
    """
    with _log.lock:
        _log.read_more = read_more
        if listener is not None:
            _log.listeners.append(listener)


def _apart(report: Report) -> Iterator[str]:
    """What a line of its own says: what a step trains on is other than the script may expect."""
    yield from (line for line in report.warnings if line.startswith(MICRO_BATCHES))
    if any(line.startswith(MICRO_BATCHES) for line in report.left_alone):
        yield _ONE_BATCH


def _is_known(graph: Any, report: Report) -> bool:
    number = _log.graphs.get(graph)
    for place, known in enumerate(_log.sessions):
        if known.graph == number and known.report == report:
            _log.sessions[place] = dataclasses.replace(known, sessions=known.sessions + 1)
            return True
    return False


def _number_of(graph: Any) -> int:
    if graph not in _log.graphs:
        _log.graph_count += 1
        _log.graphs[graph] = _log.graph_count
    return _log.graphs[graph]
