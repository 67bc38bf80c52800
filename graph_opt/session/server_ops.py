"""Finds out which servers of a cluster have graph_opt's ops, before a step needs them there."""

from __future__ import annotations

import queue
import threading
import time
from typing import FrozenSet, Iterable, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.sessions import unwatched_sessions
from graph_opt.ops.packed_embedding import ops_loaded

PROBE_SECONDS = 60.0

_Answer = Tuple[str, Optional[Exception]]


def tasks_without_ops(
    target: str, tasks: Iterable[str], timeout_seconds: float = PROBE_SECONDS
) -> FrozenSet[str]:
    """The tasks whose process has not loaded graph_opt's ops (`graph_opt.load_op_library`).

    A tiny op is run on each of them, in a graph and a session of its own, all at the same time.

    Args:
      target: The session target, `grpc://HOST:PORT`.
      tasks: Their devices, such as `/job:ps/replica:0/task:0`.
      timeout_seconds: How long to wait for all of them together.

    Returns:
      Those of `tasks` that answered that they do not know the op.

    Raises:
      tf.errors.UnavailableError: A task did not answer in time; the message names it.
      tf.errors.OpError: A task answered with another error.

    Example:
      >>> tasks_without_ops(server.target, ["/job:ps/replica:0/task:0"])
      frozenset()
    """
    waited_for = sorted(set(tasks))
    answers: queue.Queue = queue.Queue()
    for task in waited_for:
        # TensorFlow waits without end for a server that is down, and can not be told to stop: such
        # a thread ends when the server comes up, or with the process.
        thread = threading.Thread(
            target=_probe, args=(target, task, timeout_seconds, answers), daemon=True
        )
        thread.start()
    deadline = time.monotonic() + timeout_seconds
    missing = set()
    while waited_for:
        task, error = _next_answer(answers, deadline, waited_for[0], timeout_seconds)
        waited_for.remove(task)
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
        "{}: no answer within {:g} s to the question whether graph_opt's ops are loaded there; "
        "start that server, or look at its log".format(task, timeout_seconds),
    )


def _probe(target: str, task: str, timeout_seconds: float, answers: queue.Queue) -> None:
    error: Optional[Exception] = None
    try:
        _run_on(target, task, int(timeout_seconds * 1000))
    except Exception as raised:  # handed to the caller, who raises it
        error = raised
    answers.put((task, error))


def _run_on(target: str, task: str, timeout_millis: int) -> None:
    # The session connects to that task only: another one that is down has its own answer.
    config = tf.ConfigProto(
        operation_timeout_in_ms=timeout_millis, device_filters=[task.replace("/replica:0", "")]
    )
    with tf.Graph().as_default() as graph:
        with tf.device("{}/device:CPU:0".format(task)):
            loaded = ops_loaded()
        with unwatched_sessions() as opened, opened(target, graph, config) as session:
            session.run(loaded, options=tf.RunOptions(timeout_in_ms=timeout_millis))
