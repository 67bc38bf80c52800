"""Finds out which servers of a cluster have graph_opt's ops, before a step needs them."""

from __future__ import annotations

import queue
import time
from typing import FrozenSet, Iterable, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.sessions import unwatched_sessions
from graph_opt.ops.late_threads import start_thread
from graph_opt.ops.packed_embedding import ops_loaded

PROBE_SECONDS = 60.0
_PAUSE_SECONDS = 0.5

_Answer = Tuple[str, Optional[Exception]]


def tasks_without_ops(
    target: str, tasks: Iterable[str], timeout_seconds: float = PROBE_SECONDS
) -> FrozenSet[str]:
    """Returns the tasks whose process has not loaded graph_opt's ops.

    A tiny op runs on all of them concurrently, each in its own graph and session. A process loads
    the ops with `graph_opt.load_op_library()`.

    Args:
      target: The session target, `grpc://HOST:PORT`.
      tasks: Device strings of the tasks, such as `/job:ps/replica:0/task:0`.
      timeout_seconds: How long to wait for all of them together.

    Returns:
      Those of `tasks` that replied that they do not know the op.

    Raises:
      tf.errors.UnavailableError: A task did not answer in time; the message names it.
      tf.errors.OpError: A task answered with another error.

    Example:
      >>> tasks_without_ops(server.target, ["/job:ps/replica:0/task:0"])
      frozenset()
    """
    pending = sorted(set(tasks))
    answers: queue.Queue = queue.Queue()
    for task in pending:
        # TensorFlow waits forever for a server that is down and cannot be told to stop: such a
        # thread ends when the server comes up, or with the process.
        start_thread(_probe, (target, task, timeout_seconds, answers), "graph_opt_probe")
    deadline = time.monotonic() + timeout_seconds
    missing = set()
    while pending:
        task, error = _next_answer(answers, deadline, pending[0], timeout_seconds)
        pending.remove(task)
        if isinstance(error, tf.errors.NotFoundError):
            missing.add(task)
        elif isinstance(error, tf.errors.DeadlineExceededError):
            raise _unavailable(task, timeout_seconds) from error
        elif error is not None:
            raise error
    return frozenset(missing)


def _next_answer(
    answers: queue.Queue, deadline: float, task: str, timeout_seconds: float
) -> _Answer:
    try:
        return answers.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        raise _unavailable(task, timeout_seconds) from None


def _unavailable(task: str, timeout_seconds: float) -> tf.errors.UnavailableError:
    return tf.errors.UnavailableError(
        None,
        None,
        "{}: no answer within {:g} s when asked whether graph_opt's ops are loaded there; start "
        "that server, or look at its log".format(task, timeout_seconds),
    )


def _probe(target: str, task: str, timeout_seconds: float, answers: queue.Queue) -> None:
    deadline = time.monotonic() + timeout_seconds
    error: Optional[Exception] = None
    try:
        while not _has_answered(target, task, deadline):
            time.sleep(_PAUSE_SECONDS)
    except Exception as raised:  # passed to the caller, which raises it
        error = raised
    answers.put((task, error))


def _has_answered(target: str, task: str, deadline: float) -> bool:
    """Whether the op could be run; a server that starts may still refuse connections."""
    left = deadline - time.monotonic()
    try:
        _run_on(target, task, max(1, int(left * 1000)))
    except tf.errors.UnavailableError:
        if left <= 0:
            raise
        return False
    return True


def _run_on(target: str, task: str, timeout_millis: int) -> None:
    # The filter keeps the session from connecting to other tasks, which may be down.
    config = tf.ConfigProto(
        operation_timeout_in_ms=timeout_millis, device_filters=[task.replace("/replica:0", "")]
    )
    with tf.Graph().as_default() as graph:
        with tf.device("{}/device:CPU:0".format(task)):
            loaded = ops_loaded()
        with unwatched_sessions() as opened, opened(target, graph, config) as session:
            session.run(loaded, options=tf.RunOptions(timeout_in_ms=timeout_millis))
