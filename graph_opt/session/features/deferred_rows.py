"""Tables whose rows are updated when they are read: names of their values, and what comes later.

Rows are also caught up when a session ends and its variables do not.

Variables on servers outlive the session. A server catches up rows for whoever reads them next,
but the script that trained them is the one that should take the time.
"""

from __future__ import annotations

import atexit
import dataclasses
import sys
import threading
import weakref
from typing import AbstractSet, Any, MutableSet, Optional

from graph_opt.compat import tf
from graph_opt.compat.callables import is_closed, is_direct_session
from graph_opt.graph.view import GraphView
from graph_opt.ops.late_threads import start_thread
from graph_opt.passes.fusion.catch_up import rewrite_for_new_readers
from graph_opt.passes.fusion.deferred import DeferredVariables
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.session.features.feature import Feature, Late, StepHooks, Watched
from graph_opt.session.graph_records import name_map_of

# Millions of rows take seconds; a server that is gone may never answer.
LONGEST_SECONDS = 60.0
_NOT_BROUGHT = (
    "the rows of tables on '{}' could not be caught up when the session was closed: {}. The "
    "servers do so when the rows are next read"
)
_NOT_FED = (
    "it is the value of a variable whose rows are updated when they are read, and its readers do "
    "not read this tensor. Load the value into the variable, or set group_embedding_options.adam "
    "to stock"
)
_open_sessions: MutableSet[Any] = weakref.WeakSet()
_at_exit = threading.Lock()


def note_open(session: Any) -> None:
    """Notes a session that has run, in case that nobody closes it before the process exits."""
    if _tables_left_behind(session) is not None:
        with _at_exit:
            if not _open_sessions:
                atexit.unregister(_catch_up_all)
                atexit.register(_catch_up_all)
            _open_sessions.add(session)


def flush_deferred(session: Any, seconds: float = LONGEST_SECONDS) -> None:
    """Catches up all rows that outlive the session, as far as its servers answer.

    Args:
      session: A session on a rewritten graph; nothing happens if it is closed.
      seconds: How long to wait for the servers.
    """
    if sys.is_finalizing():
        return  # No thread runs any more; sessions that were still open were seen to at exit.
    _open_sessions.discard(session)
    deferred = _tables_left_behind(session)
    if deferred is None or is_closed(session):
        return
    node = deferred.catch_up_all
    failed: Any = None
    finished = threading.Event()

    def run() -> None:
        nonlocal failed
        try:
            options = tf.RunOptions(timeout_in_ms=int(seconds * 1000))
            session.run(node, options=options)
        except Exception as error:  # The script's own error, if any, matters more.
            failed = error
        finished.set()

    # TensorFlow may wait forever for a server that is down.
    start_thread(run, name="graph_opt_flush_deferred")
    if not finished.wait(seconds):
        failed = "no answer in {:g} s".format(seconds)
    if failed is not None:
        reason = str(getattr(failed, "message", failed)).partition("\n")[0]
        warn_once(_NOT_BROUGHT.format(_target(session), reason), session.graph)


def _tables_left_behind(session: Any) -> Optional[DeferredVariables]:
    """The deferred tables of a session if they outlive it."""
    if is_direct_session(session):
        return None
    return name_map_of(session.graph).part(DeferredVariables)


def _target(session: Any) -> str:
    target = session.sess_str
    return target.decode("utf-8") if isinstance(target, bytes) else str(target)


def _catch_up_all() -> None:
    for session in list(_open_sessions):
        flush_deferred(session)


class FlushDeferred(StepHooks):
    """See `StepHooks`."""

    def first_run(self) -> None:
        """See `StepHooks`."""
        note_open(self.session)

    def before_close(self) -> None:
        """See `StepHooks`."""
        flush_deferred(self.session)


class DeferredRows(Feature):
    """See `Feature`."""

    part_type = DeferredVariables
    hooks = FlushDeferred
    not_as_built = "it trains tables whose rows are moved when they are read"

    def __init__(self, graph: Any, part: DeferredVariables) -> None:
        super().__init__(graph, part)
        self._current_values = part.current_values

    @classmethod
    def watched(cls, part: DeferredVariables) -> Watched:
        """See `Feature`."""
        variables = frozenset(name for each in part.variables for name in each.variables)
        return Watched(variables, part.current_values)

    @classmethod
    def rewrite_late(cls, view: GraphView, part: DeferredVariables, new: AbstractSet[str]) -> Late:
        """See `Feature`."""
        rewrite, current_values = rewrite_for_new_readers(view, part, new)
        if not current_values:
            return Late(rewrite, part)
        merged = {**part.current_values, **current_values}
        return Late(rewrite, dataclasses.replace(part, current_values=merged))

    def in_main(self, name: str) -> Optional[str]:
        """See `Feature`."""
        return self._current_values.get(name)

    def in_built_graph(self, name: str) -> Optional[str]:
        """See `Feature`."""
        return self.in_main(name)

    def refusal_of_feed(self, name: str) -> str:
        """See `Feature`."""
        return _NOT_FED if name in self._current_values else ""
