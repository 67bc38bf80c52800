"""What an error in a stage's thread means: end of input, a batch to skip, or a failure."""

from __future__ import annotations

import re
from typing import Iterable, Iterator, NamedTuple, Tuple, Type

from graph_opt.compat import tf
from graph_opt.ops.stage_spec import StageSpec
from graph_opt.runtime.python_spec import PythonSpec

CLOSED = "closed"
IGNORED = "ignored"
FAILED = "failed"

# A gRPC session prefixes the message of a Python error in `tf.py_func` with the failing task, and
# an error that another rank has sent begins with that rank.
_RAISED_IN_GRAPH = re.compile(
    r"(?:rank \d+: )?(?:From /job:[^\n]*\n)?\s*([A-Za-z_][\w.]*)(?::|\n|$)"
)


# A step over several tasks fails with one status per task. The runtime may list the tasks that it
# cancelled before the lost one, which made it cancel them.
_LOST_TASK = re.compile(r"^(ABORTED|UNAVAILABLE): ", re.MULTILINE)


class Status(NamedTuple):
    """An error as TensorFlow passes it on: a code of `tf.errors` and a message."""

    code: int
    message: str


def outcome_of(error: BaseException, stage: StageSpec, python_side: PythonSpec) -> str:
    """`CLOSED`, `IGNORED` or `FAILED`, by the stage's lists; `CLOSED` takes precedence.

    A Python error raised in `tf.py_func` arrives as an error of TensorFlow whose message begins
    with its class, and counts as that class, too.
    """
    code = getattr(error, "error_code", None)
    if isinstance(error, StopIteration) or code in stage.closed_codes:
        return CLOSED
    if _is_any_of(error, python_side.closed_types):
        return CLOSED
    if code in stage.ignored_codes or _is_any_of(error, python_side.ignored_types):
        return IGNORED
    return FAILED


def status_of(error: BaseException) -> Status:
    """The error's own code and message; other exceptions are UNKNOWN, "Type: message".

    The loss of a task is always ABORTED, so that monitored sessions recover: TensorFlow turns an
    UNAVAILABLE that a kernel (here main's take) returns into INTERNAL, and a step may be CANCELLED
    because a task was lost.
    """
    if not isinstance(error, tf.errors.OpError):
        return Status(tf.errors.UNKNOWN, "{}: {}".format(type(error).__name__, error))
    code, message = int(error.error_code), str(error.message)
    if code == tf.errors.UNAVAILABLE:
        return Status(tf.errors.ABORTED, "UNAVAILABLE: " + message)
    if code == tf.errors.CANCELLED and _LOST_TASK.search(message):
        return Status(tf.errors.ABORTED, message)
    return Status(code, message)


def _is_any_of(error: BaseException, types: Tuple[Type[BaseException], ...]) -> bool:
    if isinstance(error, types):
        return True
    if not types or not isinstance(error, tf.errors.OpError):
        return False
    raised = _RAISED_IN_GRAPH.match(str(error.message))
    return raised is not None and raised.group(1).split(".")[-1] in set(_names(types))


def _names(types: Iterable[Type[BaseException]]) -> Iterator[str]:
    for each in types:
        yield each.__name__
        # `type.__subclasses__` of a metaclass needs an argument; exceptions have plain ones.
        yield from _names(each.__subclasses__())
