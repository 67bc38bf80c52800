"""How monitored sessions of a cluster begin, and begin again when a task of it was lost."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from typing import Any, Iterator, List, Mapping, MutableMapping

from graph_opt.compat import tf
from graph_opt.config.options import session_options
from graph_opt.reporting.stderr import say
from graph_opt.session.server_answers import NO_ANSWER, first_line, silent_tasks

NOTED_SECONDS = 60.0
# A server that is slow or busy answers within this time.
ANSWER_SECONDS = 3.0
_LOSSES = (tf.errors.AbortedError, tf.errors.UnavailableError)

_lost: MutableMapping[Any, str] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def note_lost(session: Any, error: tf.errors.OpError) -> None:
    """Notes an error for which a monitored session on a cluster opens another one."""
    if session.sess_str and isinstance(error, _LOSSES):
        with _lock:
            _lost[session.graph] = first_line(error)


class Recovery:
    """What a session creator does before and after it opens a session on a cluster.

    Args:
      config: The session's extended config; None for none.
      target: The session's target; without one, there is no cluster.
    """

    def __init__(self, config: Any, target: str) -> None:
        self._target = "" if config is None else target
        self._limit = stall_seconds(config)
        self._is_first = True

    @contextlib.contextmanager
    def new_session(self, graph: Any, config: Any, scaffold: Any) -> Iterator[None]:
        """The block opens a session.

        Args:
          graph: The graph that it will run, complete.
          config: The `tf.ConfigProto` that it is opened with, which may be changed.
          scaffold: Its `tf.train.Scaffold`.

        Raises:
          tf.errors.DeadlineExceededError: A server has not answered for `stall_seconds`.
        """
        if not self._target:
            yield
            return
        tasks = used_tasks(graph)
        if not config.device_filters:
            # TensorFlow connects to all tasks, and waits forever for those that are gone: a worker
            # could not begin, nor recover, once another had ended.
            config.device_filters.extend(tasks)
        if self._is_first:
            self._is_first = False
            yield
            return
        scaffold.finalize()  # Before all waiting, as by TensorFlow: it may refuse another session.
        start = time.monotonic()
        with _lock:
            cause = _lost.pop(graph, None)
        if cause is not None:
            say(
                "the session was lost ({}); another one begins when its servers answer".format(
                    cause
                )
            )
        self._wait_for(tasks)
        yield
        if cause is not None:
            say("another session has begun after {:.1f} s".format(time.monotonic() - start))

    def _wait_for(self, tasks: List[str]) -> None:
        silent = silent_tasks(self._target, tasks, self._limit or NOTED_SECONDS)
        while silent:
            text = stalled(silent, self._limit or NOTED_SECONDS, self._limit)
            if self._limit:
                raise tf.errors.DeadlineExceededError(None, None, text)
            say(text)
            silent = silent_tasks(self._target, list(silent), NOTED_SECONDS)


def stall_seconds(config: Any) -> float:
    """How long servers may be silent, from an extended config; 0 for no limit."""
    return 0.0 if config is None else float(session_options(config).stall_seconds)


def used_tasks(graph: Any) -> List[str]:
    """The tasks of the cluster that a graph names, as device strings."""
    tasks = set()
    for device in {operation.device for operation in graph.get_operations()}:
        spec = tf.DeviceSpec.from_string(device)
        if spec.job is not None and spec.task is not None:
            tasks.add(tf.DeviceSpec(job=spec.job, task=spec.task).to_string())
    return sorted(tasks)


def stalled(silent: Mapping[str, str], seconds: float, limit: float) -> str:
    """Says which servers do not answer.

    Args:
      silent: Why, by task.
      seconds: How long they were waited for.
      limit: What `stall_seconds` is; 0 for no limit.
    """
    within = "stall_seconds is {:g}".format(limit) if limit else "no stall_seconds is set"
    reasons = sorted(set(silent.values()) - {NO_ANSWER})
    return (
        "{} not answered for {:.0f} s ({}): look at the log, or start it again; training then "
        "goes on from the last checkpoint"
    ).format(_have(sorted(silent)), seconds, "; ".join([*reasons, within]))


def _have(tasks: List[str]) -> str:
    return "{} {}".format(", ".join(tasks), "has" if len(tasks) == 1 else "have")
