"""Finds out which servers of a cluster answer."""

from __future__ import annotations

import queue
import re
import threading
import time
from typing import Any, Dict, Iterable, Tuple

from graph_opt.compat import tf
from graph_opt.compat.unwatched_sessions import unwatched_sessions
from graph_opt.ops.late_threads import start_thread

NO_ANSWER = "no answer"
NO_SUCH_TASK = "the cluster has no such task"
# A session without device_filters connects to all tasks of the cluster.
OTHER_TASK = "a task that the graph does not use"
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 5.0

# What TensorFlow puts around an error: "Graph execution error:", "2 root error(s) found.",
# "(0) UNAVAILABLE: From /job:worker/replica:0/task:0:", nodes, and how the call failed.
_AROUND = re.compile(
    r"=+$|Graph execution error:|Detected at |\d+ root error|(\(\d+\) )?([A-Z_]+: )?From /job:|"
    r"node |Node:|File |Additional GRPC|:\{|\[\["
)
_CODE = re.compile(r"(\(\d+\) )?([A-Z_]+: )")

_Answer = Tuple[str, str]


def silent_tasks(target: str, tasks: Iterable[str], seconds: float) -> Dict[str, str]:
    """Waits until all tasks that the cluster has have answered, or for so long.

    Args:
      target: The session target, `grpc://HOST:PORT`.
      tasks: Device strings of the tasks, such as `/job:ps/task:0`; `OTHER_TASK` for all that the
        cluster has.
      seconds: How long to wait for all of them together.

    Returns:
      Those that have not answered, each with why, as far as that is known.

    Example:
      >>> silent_tasks(server.target, ["/job:ps/task:0", "/job:ps/task:1"], seconds=5)
      {'/job:ps/task:1': 'Connection refused'}
    """
    silent = {task: NO_ANSWER for task in sorted(tasks)}
    unknown: Dict[str, str] = {}
    answers: queue.Queue[_Answer] = queue.Queue()
    stop = threading.Event()
    for task in silent:
        # TensorFlow may wait forever for a server that is stopped, and cannot be told to end: such
        # a thread ends when the server goes on, or with the process.
        start_thread(_ask, (target, task, answers, stop))
    deadline = time.monotonic() + seconds
    try:
        while silent:
            task, error = answers.get(timeout=max(0.0, deadline - time.monotonic()))
            if error and error != NO_SUCH_TASK:
                silent[task] = error
                continue
            del silent[task]
            if error:
                unknown[task] = error
    except queue.Empty:
        pass
    finally:
        stop.set()
    return {**silent, **unknown}


def _ask(target: str, task: str, answers: queue.Queue[_Answer], stop: threading.Event) -> None:
    pause = _FIRST_PAUSE_SECONDS
    while not stop.is_set():
        error = _error_of(target, task)
        answers.put((task, error))
        if not error or error == NO_SUCH_TASK:
            return
        stop.wait(pause)  # Each attempt makes TensorFlow print some lines.
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _error_of(target: str, task: str) -> str:
    # The filter keeps the session from connecting to other tasks, which may be down.
    filters = [] if task == OTHER_TASK else [task]
    try:
        open_session(target, tf.ConfigProto(device_filters=filters), filters[0] if filters else "")
    except tf.errors.InvalidArgumentError:
        return NO_SUCH_TASK  # An op cannot be placed there.
    except tf.errors.OpError as error:
        return first_line(error)
    return ""


def open_session(target: str, config: Any, device: str = "") -> None:
    """Opens a session of TensorFlow's, which waits for the tasks of the cluster, and closes it.

    Args:
      target: The session target, `grpc://HOST:PORT`.
      config: Its `tf.ConfigProto`, or None.
      device: What it runs an op on.
    """
    with tf.Graph().as_default() as graph:
        with tf.device(device or None):
            answer = tf.no_op()
        with unwatched_sessions() as opened, opened(target, graph, config) as session:
            session.run(answer)


def first_line(error: tf.errors.OpError) -> str:
    """What an error says, without what TensorFlow puts before it and behind it."""
    for line in map(str.strip, str(error.message).splitlines()):
        if line and not _AROUND.match(line):
            return _CODE.sub("", line)
    return type(error).__name__
