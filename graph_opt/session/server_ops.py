"""Finds out which servers of a cluster have graph_opt's ops, before a step needs them."""

from __future__ import annotations

import functools
import queue
import time
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Tuple, Union

from graph_opt.compat import tf
from graph_opt.compat.unwatched_sessions import unwatched_sessions
from graph_opt.ops.late_threads import start_thread
from graph_opt.ops.packed_embedding import library_of_process, ops_loaded

PROBE_SECONDS = 60.0
_PAUSE_SECONDS = 0.5


class Library(NamedTuple):
    """The library of ops that a process has loaded.

    Attributes:
      release: Of graph_opt.
      definitions: A hash of how its ops are defined: two libraries with the same one understand
        each other.
    """

    release: str
    definitions: str


NO_LIBRARY = Library("", "")
OLDER_LIBRARY = Library("an older release", "")
"""One that does not tell its release."""

_Answer = Tuple[str, Union[Library, Exception]]


def differing_libraries(
    target: str, tasks: Iterable[str], timeout_seconds: float = PROBE_SECONDS
) -> Dict[str, Library]:
    """Returns the tasks whose process has not loaded the ops that this one has.

    A tiny op runs on all of them concurrently, each in its own graph and session. A process loads
    the ops with `graph_opt.load_op_library()`.

    Args:
      target: The session target, `grpc://HOST:PORT`.
      tasks: Device strings of the tasks, such as `/job:ps/replica:0/task:0`.
      timeout_seconds: How long to wait for all of them together.

    Returns:
      What those of `tasks` have in their place: `NO_LIBRARY`, or one with other ops.

    Raises:
      tf.errors.UnavailableError: A task did not answer in time; the message names it.
      tf.errors.OpError: A task answered with another error.

    Example:
      >>> differing_libraries(server.target, ["/job:ps/replica:0/task:0"])
      {}
    """
    pending = sorted(set(tasks))
    answers: queue.Queue = queue.Queue()
    for task in pending:
        # TensorFlow waits forever for a server that is down and cannot be told to stop: such a
        # thread ends when the server comes up, or with the process.
        start_thread(_probe, (target, task, timeout_seconds, answers), "graph_opt_probe")
    deadline = time.monotonic() + timeout_seconds
    found: Dict[str, Library] = {}
    while pending:
        task, answer = _next_answer(answers, deadline, pending[0], timeout_seconds)
        pending.remove(task)
        if isinstance(answer, tf.errors.DeadlineExceededError):
            raise _unavailable(task, timeout_seconds) from answer
        if isinstance(answer, Exception):
            raise answer
        if answer.definitions != own_library().definitions:
            found[task] = answer
    return {task: found[task] for task in sorted(found)}


@functools.lru_cache(maxsize=None)
def own_library() -> Library:
    """The library of this process."""
    config = tf.ConfigProto(device_count={"GPU": 0})
    return _library(_run_on("", "", config, library_of_process))


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
    try:
        answer: Union[Library, Exception] = _library_on(target, task, deadline)
    except Exception as raised:  # passed to the caller, which raises it
        answer = raised
    answers.put((task, answer))


def _library_on(target: str, task: str, deadline: float) -> Library:
    try:
        return _library(_told(target, task, deadline, library_of_process))
    except tf.errors.NotFoundError:
        pass
    try:
        _told(target, task, deadline, ops_loaded)
    except tf.errors.NotFoundError:
        return NO_LIBRARY
    return OLDER_LIBRARY


def _library(told: List[bytes]) -> Library:
    release, definitions = told
    return Library(release.decode(), definitions.decode())


def _told(target: str, task: str, deadline: float, asked: Callable[[], Any]) -> Any:
    """The value of an op on a task; a server that starts may still refuse connections."""
    while True:
        left = deadline - time.monotonic()
        # The filter keeps the session from connecting to other tasks, which may be down.
        config = tf.ConfigProto(
            operation_timeout_in_ms=max(1, int(left * 1000)),
            device_filters=[task.replace("/replica:0", "")],
        )
        try:
            return _run_on(target, task, config, asked)
        except tf.errors.UnavailableError:
            if left <= 0:
                raise
        time.sleep(_PAUSE_SECONDS)


def _run_on(target: str, task: str, config: Any, asked: Callable[[], Any]) -> Any:
    options = tf.RunOptions(timeout_in_ms=config.operation_timeout_in_ms)
    with tf.Graph().as_default() as graph:
        with tf.device("{}/device:CPU:0".format(task)):
            fetched = asked()
        with unwatched_sessions() as opened, opened(target, graph, config) as session:
            return session.run(fetched, options=options)
