"""Records the steps of a process's sessions, for the page of its run.

Prefetch threads note their steps in any case. Here steps of main are noted, too, and some steps in
detail, for when they waited at buffers. Of all sessions, the page is of the one with most steps,
whose graph is kept for it; other graphs end with their sessions.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from typing import Any, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.callables import is_direct_session, trace_level
from graph_opt.compat.sessions import Elements
from graph_opt.report_page.graph_report import GraphReport
from graph_opt.runtime.trace import Wait, trace_of
from graph_opt.runtime.trace_waits import waits_in
from graph_opt.session.graph_page import page_of_graph
from graph_opt.session.step import Step
from graph_opt.session.step_listeners import tell_steps_to
from graph_opt.session.watched_session import WatchedSession

# Of so many steps, these are recorded in detail: the first ones are like no others.
_DETAILED_OF = 1024
_DETAILED_FROM, _DETAILED_TO = 16, 40


class _Recording:
    def __init__(self) -> None:
        self.is_on = False
        self.longest: Optional[_StepRecorder] = None
        self.begun = threading.local()  # `given`: the step that this thread has begun.


_recording = _Recording()


def _reset_after_fork() -> None:
    _recording.longest = None


if hasattr(os, "register_at_fork"):  # Not on every system.
    os.register_at_fork(after_in_child=_reset_after_fork)


def record_steps() -> None:
    """Records the steps of all sessions from now on."""
    _recording.is_on = True
    tell_steps_to(_note_begun)


def page_of_run(title: str, notes: Sequence[str]) -> Optional[GraphReport]:
    """The page of the session with most steps; None if no session ran a step that was recorded.

    Args:
      title: What it calls the graph.
      notes: What else it says of the run.
    """
    longest = _recording.longest
    if longest is None:
        return None
    return page_of_graph(longest.graph, title, longest.trace.records(), notes)


class RecordedSession(WatchedSession):
    """A mixin for classes derived from `tf.Session`: notes how long steps took, if that is on."""

    _recorder: Optional[_StepRecorder] = None

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Like `tf.Session.run`."""
        if not _recording.is_on:
            return super().run(fetches, feed_dict, options, run_metadata)
        if self._recorder is None:
            self._recorder = _StepRecorder(self)
        recorder = self._recorder
        detailed = recorder.wants_details
        if detailed:
            options, run_metadata = _traced(self, options), run_metadata or tf.RunMetadata()
        _recording.begun.given = None
        start = time.perf_counter()
        results = super().run(fetches, feed_dict, options, run_metadata)
        end = time.perf_counter()
        given = _recording.begun.given
        if given is not None:
            step = self._step_of(*given)
            if step.takes_from or step.trains:
                recorder.add(start, end, waits_in(run_metadata) if detailed else None)
        return results

    def _step_of(self, *given: Elements) -> Step:
        raise NotImplementedError


class _StepRecorder:
    """The steps of one session that take a batch or train; outlives it if it has most of them."""

    def __init__(self, session: Any) -> None:
        self.graph = session.graph
        self.trace = trace_of(session)
        self.steps = 0
        # On a server, other threads of the master collect the times, at a cost.
        self._has_details = is_direct_session(session)
        self._lock = threading.Lock()

    @property
    def wants_details(self) -> bool:
        """Whether the next step is one whose waits are recorded."""
        return self.trace.detailed

    def add(self, start: float, end: float, waits: Optional[Tuple[Wait, ...]]) -> None:
        """Adds a step of main; `waits` is None if it was not traced."""
        self.trace.add_main_step(start, end, waits)
        with self._lock:
            self.steps += 1
            place = self.steps % _DETAILED_OF
            if self._has_details and place in (_DETAILED_FROM, _DETAILED_TO):
                self.trace.detailed = place == _DETAILED_FROM
        longest = _recording.longest
        if longest is None or self.steps > longest.steps:
            _recording.longest = self


def _traced(session: Any, options: Any) -> Any:
    """The RunOptions of a step whose waits are recorded, given those of its caller, if any."""
    traced = tf.RunOptions() if options is None else copy.deepcopy(options)
    traced.trace_level = max(traced.trace_level, trace_level(session))
    return traced


def _note_begun(
    session: Any, fetches: Elements, targets: Elements, feeds: Elements, values: Sequence[Any]
) -> None:
    del session, values
    _recording.begun.given = fetches, targets, feeds
