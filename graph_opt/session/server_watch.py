"""Ends steps, and the opening and closing of sessions, that wait for a server that is gone.

A server that is stopped, or behind a network that loses all packets, fails no call: TensorFlow
waits for it forever, and nothing ends such a wait. So calls of sessions on a cluster are made in a
thread of their own, which can be left behind.
"""

from __future__ import annotations

import queue
import sys
import time
from typing import Any, Callable, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.left_behind import LeftBehind
from graph_opt.compat.sessions import session_config
from graph_opt.ops.late_threads import start_thread
from graph_opt.ops.masters import correct_masters
from graph_opt.reporting.stderr import say
from graph_opt.runtime.stage_waits import FOR_WORKERS, wait_of_step
from graph_opt.session.recovery import (
    ANSWER_SECONDS,
    NOTED_SECONDS,
    stall_seconds,
    stalled,
    used_tasks,
)
from graph_opt.session.server_answers import OTHER_TASK, silent_tasks

_CLOSE_SECONDS = 5.0
_NOT_CLOSED = (
    "a session was left open, since its servers have not answered for {:g} s when it was closed"
)
_LASTS = "a call of the session has lasted {:.0f} s, and all its servers answer: {}"

_Call = Tuple[Callable[..., Any], Tuple[Any, ...]]
_Reply = Tuple[Any, Optional[BaseException]]


class ServerWatch:
    """Makes the calls of one session to TensorFlow.

    Args:
      config: The session's extended config; None for none.
    """

    def __init__(self, config: Any) -> None:
        self._limit = stall_seconds(config)
        self._noted_after = self._limit or NOTED_SECONDS
        self._has_noted_workers = False
        self._spare: queue.SimpleQueue[_CallThread] = queue.SimpleQueue()
        self._stalled: Optional[str] = None
        self._is_open = False

    def call(self, session: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns what the function returns, and raises what it raises.

        Args:
          session: The session.
          function: What is called.
          *arguments: Its arguments.

        Raises:
          LeftBehind: A server has not answered for `stall_seconds`.
        """
        if not session.sess_str:
            return function(*arguments)
        correct_masters()
        thread = self._thread()
        thread.calls.put((function, arguments))
        start = time.monotonic()
        while True:
            try:
                result, error = thread.replies.get(timeout=self._limit or NOTED_SECONDS)
            except queue.Empty:
                self._look(session, start)
            else:
                break
            if self._stalled is not None:
                raise _left_behind(self._stalled)
        self._spare.put(thread)
        self._is_open = True
        if error is not None:
            raise error
        return result

    def close(self, session: Any, function: Callable[[], Any]) -> None:
        """Closes a session, with or without an answer of its servers, and ends the threads."""
        if self.is_stalled:
            # It waits for the servers, too, and holds up what else is run on the session, such as
            # what ends the threads of stages: so not before. No thread can start any more while the
            # interpreter ends.
            if not sys.is_finalizing():
                _CallThread().calls.put((function, ()))
            return
        if not session.sess_str or sys.is_finalizing():
            function()
            return
        thread = _CallThread()
        thread.calls.put((function, ()))
        error = None
        try:
            error = thread.replies.get(timeout=_CLOSE_SECONDS)[1]
            self._spare.put(thread)
        except queue.Empty:
            say(_NOT_CLOSED.format(_CLOSE_SECONDS))
        while not self._spare.empty():
            self._spare.get().end()
        if error is not None:
            raise error

    @property
    def is_stalled(self) -> bool:
        """Whether a call was left behind."""
        return self._stalled is not None

    def _thread(self) -> _CallThread:
        if self._stalled is not None:
            raise _left_behind(self._stalled)
        try:
            return self._spare.get_nowait()
        except queue.Empty:
            return _CallThread()

    def _look(self, session: Any, start: float) -> None:
        """Sees whether servers do not answer, and says so if that may go on."""
        target = session.sess_str.decode("utf-8")
        silent = silent_tasks(target, used_tasks(session.graph), ANSWER_SECONDS)
        if not silent and not self._is_open and not _has_filters(session):
            silent = silent_tasks(target, [OTHER_TASK], ANSWER_SECONDS)
        waited = time.monotonic() - start
        if not silent:
            self._note_wait(session, waited)
        elif self._limit:
            self._stalled = stalled(silent, waited, self._limit)
        else:
            say(stalled(silent, waited, self._limit))

    def _note_wait(self, session: Any, waited: float) -> None:
        """Says what a call waits for whose servers answer; seldom where all calls take long."""
        if waited < self._noted_after:
            return
        self._noted_after = 2 * waited
        waits = wait_of_step(session, ANSWER_SECONDS)
        if waits == FOR_WORKERS:
            if self._has_noted_workers:
                return
            self._has_noted_workers = True
        say(_LASTS.format(waited, waits))


def _has_filters(session: Any) -> bool:
    config = session_config(session)
    return config is not None and bool(config.device_filters)


def _left_behind(text: str) -> LeftBehind:
    return LeftBehind(tf.errors.DeadlineExceededError(None, None, text))


class _CallThread:
    """A thread that makes one call at a time."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Optional[_Call]] = queue.SimpleQueue()
        self.replies: queue.SimpleQueue[_Reply] = queue.SimpleQueue()
        self._thread = start_thread(self._run)

    def end(self) -> None:
        """Ends the thread, which makes no call."""
        self.calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            call = self.calls.get()
            if call is None:
                return
            function, arguments = call
            try:
                reply: _Reply = (function(*arguments), None)
            except BaseException as error:  # It is the caller's.
                reply = (None, error)
            del call, function, arguments
            self.replies.put(reply)
            del reply
