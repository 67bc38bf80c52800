"""Which errors end the input, skip a batch, or fail, and how an error is passed on."""

from __future__ import annotations

from typing import Any, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.ops.stage_spec import StageSpec
from graph_opt.runtime.exception_types import split_exception_types
from graph_opt.runtime.outcome import CLOSED, FAILED, IGNORED, outcome_of, status_of
from graph_opt.runtime.python_spec import PythonSpec
from graph_opt.runtime.staged import staged
from graph_opt.runtime.stages import stages_of


def stage_with(**options: Any) -> Tuple[StageSpec, PythonSpec]:
    """A stage with these exception types: what its nodes say, and what is kept beside them."""
    from graph_opt.runtime.python_spec import recall

    graph = tf.get_default_graph()
    staged(tf.constant(1), name="input", **options)
    return stages_of(graph)[0].spec, recall(graph, "input")


def from_py_func(text: str) -> tf.errors.OpError:
    """What a Python error in the graph looks like when it arrives."""
    return tf.errors.UnknownError(None, None, text)


@pytest.mark.parametrize(
    "error, outcome",
    [
        (tf.errors.OutOfRangeError(None, None, "end"), CLOSED),
        (StopIteration(), CLOSED),
        (tf.errors.CancelledError(None, None, "x"), FAILED),
        (tf.errors.AbortedError(None, None, "x"), FAILED),
        (KeyError("x"), FAILED),
    ],
)
def test_outcomes_by_default(error: BaseException, outcome: str) -> None:
    assert outcome_of(error, *stage_with()) == outcome


@pytest.mark.parametrize(
    "error, outcome",
    [
        (tf.errors.DataLossError(None, None, "x"), IGNORED),
        (tf.errors.NotFoundError(None, None, "x"), CLOSED),
        (tf.errors.OutOfRangeError(None, None, "end"), FAILED),
        (KeyError("x"), IGNORED),
        (EOFError(), CLOSED),
        (IndexError("x"), IGNORED),
        (from_py_func("KeyError: 'x'\nTraceback ..."), IGNORED),
        (from_py_func("IndexError: x"), IGNORED),
        (from_py_func("From /job:worker/replica:0/task:0:\nEOFError: \n"), CLOSED),
        (from_py_func("EOFError\nTraceback"), CLOSED),
        (from_py_func("my.module.KeyError: 'x'"), IGNORED),
        (from_py_func("ValueError: KeyError: 'x'"), FAILED),
        (from_py_func("a KeyError: somewhere"), FAILED),
    ],
)
def test_outcomes_by_class(error: BaseException, outcome: str) -> None:
    stage, python_side = stage_with(
        closed_exception_types=[tf.errors.NOT_FOUND, EOFError],
        ignored_exception_types=(tf.errors.DataLossError, LookupError),
    )
    assert outcome_of(error, stage, python_side) == outcome


def test_closed_comes_before_ignored() -> None:
    stage, python_side = stage_with(ignored_exception_types=Exception)
    assert outcome_of(tf.errors.OutOfRangeError(None, None, "end"), stage, python_side) == CLOSED
    assert outcome_of(tf.errors.AbortedError(None, None, "x"), stage, python_side) == IGNORED


def test_statuses_keep_type_and_message() -> None:
    error = tf.errors.DataLossError(None, None, "torn\n\t [[{{node read}}]]")
    assert status_of(error) == (tf.errors.DATA_LOSS, "torn\n\t [[{{node read}}]]")
    assert status_of(KeyError("x")) == (tf.errors.UNKNOWN, "KeyError: 'x'")


def test_a_step_cancelled_because_a_task_was_lost_is_that_loss() -> None:
    message = (
        "\n=====================\nCANCELLED: From /job:worker/replica:0/task:0:\n"
        "RecvFromRemoteAsync is cancelled.\nABORTED: From /job:ps/replica:0/task:0:\n"
        "Session handle is not found: e699. Possibly this worker just restarted.\n"
    )
    error = tf.errors.CancelledError(None, None, message)
    assert status_of(error) == (tf.errors.ABORTED, message)
    assert status_of(tf.errors.CancelledError(None, None, "by hand"))[0] == tf.errors.CANCELLED
    unavailable = tf.errors.UnavailableError(None, None, "Socket closed")
    assert status_of(unavailable) == (tf.errors.ABORTED, "UNAVAILABLE: Socket closed")
    assert status_of(tf.errors.DataLossError(None, None, message))[0] == tf.errors.DATA_LOSS


def test_exception_types_are_split_into_codes_and_classes() -> None:
    class Own(tf.errors.DataLossError):
        """A user's subclass of one of TensorFlow's errors."""

    given = [tf.errors.DataLossError, 5, KeyError, Own]
    assert split_exception_types(given, "x") == ((5, 15), (KeyError, Own))
    assert split_exception_types(None, "x") == ((), ())
    assert split_exception_types(tf.errors.OpError, "x")[0] == tuple(range(1, 17))
