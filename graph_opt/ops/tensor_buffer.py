"""Buffers of tensors between the threads of a stage and those that take from it.

All ops with the same `shared_name` on a device share one buffer. It holds at most
`shared_capacity` records; a record consists of the tensors of one batch, held by reference.

    put ──► [ record n+2 | error n+1 ] ──► take     one take hands out record n, the next fails

Several threads may fill a buffer. Each of their steps has a number, its place: it waits for its
turn to draw from the sources, and records leave in the order of places, whichever thread is faster.
A step that fails puts a status in its place.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.ops.library import load_library

DEFAULT_RUNNER_GRACE_MILLIS = 5000
NO_PLACE = -1
"""The place of a record that leaves in the order of arrival."""

METRIC_NAMES = (
    "capacity",
    "size",
    "put_count",
    "take_count",
    "dropped",
    "taken_bytes",
    "put_wait_micros",
    "take_wait_micros",
    "put_waits",
    "take_waits",
    "pending_takes",
    "pending_puts",
    "closed",
    "cancelled",
    "errors",
)
"""The elements of `tensor_buffer_metrics`, in order.

capacity, size: number of records it may hold, and holds now. put_count, take_count: number of
records put and taken, including errors. dropped: number of places left empty (skipped batches).
taken_bytes: bytes of the records taken. put_wait_micros, take_wait_micros: microseconds spent
waiting because it was full or empty, summed over all calls, including those still waiting.
put_waits, take_waits: number of calls that had to wait. pending_takes, pending_puts: number of
calls that are waiting now. closed, cancelled: 0 or 1. errors: number of errors put in place of
records.
"""


def tensor_buffer_put(
    record: Sequence[tf.Tensor],
    place: Optional[tf.Tensor] = None,
    *,
    shared_name: str,
    shared_capacity: int = 1,
    timeout_millis: int = 0,
    container: str = "",
    name: Optional[str] = None,
) -> tf.Operation:
    """Puts a record into a buffer; while there is no room, waits without holding a thread.

    Args:
      record: The tensors of one batch, at least one, of any shape. They are not copied.
      place: int64 scalar, the number of the step among those that fill the buffer: records leave in
        the order of places. None or `NO_PLACE`: in the order of arrival.
      shared_name: Name of the buffer.
      shared_capacity: Maximum number of records, the same for all ops of a buffer.
      timeout_millis: Maximum wait in milliseconds; 0 for no limit.
      container: Resource container; '' is the default one.
      name: Name of the node.

    Returns:
      The operation. It fails with the buffer's error if the buffer is cancelled, with
      CancelledError if it is closed or the step is cancelled, and with DeadlineExceededError after
      the timeout.

    Example:
      >>> put = tensor_buffer_put([ids, rows], shared_name="batches", shared_capacity=2)
    """
    return load_library().tensor_buffer_put(
        record=record,
        place=[] if place is None else [place],
        container=container,
        shared_name=shared_name,
        shared_capacity=shared_capacity,
        timeout_millis=timeout_millis,
        name=name,
    )


def tensor_buffer_take(
    dtypes: Sequence[Any],
    shapes: Optional[Sequence[Any]] = None,
    *,
    shared_name: str,
    shared_capacity: int = 1,
    timeout_millis: int = 0,
    runner_grace_millis: int = DEFAULT_RUNNER_GRACE_MILLIS,
    container: str = "",
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """Takes the next record from a buffer; while there is none, waits without holding a thread.

    Args:
      dtypes: Dtypes of the record's tensors.
      shapes: Their static shapes, checked when a record is taken. None: all unknown.
      shared_name: Name of the buffer.
      shared_capacity: Maximum number of records, the same for all ops of a buffer.
      timeout_millis: Maximum wait in milliseconds; 0 for no limit.
      runner_grace_millis: Maximum wait in milliseconds for a buffer that nothing was ever put into
        and that no runner resumed; 0 for no limit.
      container: Resource container; '' is the default one.
      name: Name of the node.

    Returns:
      The record. The op fails with the error that was put in a record's place, with the buffer's
      error if the buffer is cancelled, with OutOfRangeError if it is closed and empty, with
      CancelledError if the step is cancelled, with DeadlineExceededError after the timeout, and
      with FailedPreconditionError after the grace period.

    Example:
      >>> ids, rows = tensor_buffer_take([tf.int64, tf.float32], shared_name="batches")
    """
    record = load_library().tensor_buffer_take(
        dtypes=dtypes,
        shapes=[] if shapes is None else shapes,
        container=container,
        shared_name=shared_name,
        shared_capacity=shared_capacity,
        timeout_millis=timeout_millis,
        runner_grace_millis=runner_grace_millis,
        name=name,
    )
    return list(record)


def tensor_buffer_put_status(
    place: Any,
    code: Any,
    message: Any,
    *,
    shared_name: str,
    shared_capacity: int = 1,
    container: str = "",
    name: Optional[str] = None,
) -> tf.Operation:
    """Puts an error in the place of a record; waits for room without holding a thread.

    The take that gets it fails with this error; the next take gets the record after it.

    Args:
      place: int64 scalar, as for `tensor_buffer_put`; `NO_PLACE` means the order of arrival.
      code: int32 scalar, error code (`tf.errors.*`); 0 leaves the place empty, so that nobody waits
        for it.
      message: string scalar.
      shared_name: Name of the buffer.
      shared_capacity: Maximum number of records, the same for all ops of a buffer.
      container: Resource container; '' is the default one.
      name: Name of the node.

    Returns:
      The operation. It fails like a put.

    Example:
      >>> tensor_buffer_put_status(7, tf.errors.DATA_LOSS, "row 17 is torn", shared_name="batches")
    """
    return load_library().tensor_buffer_put_status(
        place=place,
        code=code,
        message=message,
        container=container,
        shared_name=shared_name,
        shared_capacity=shared_capacity,
        name=name,
    )


def tensor_buffer_turn(
    place: Any,
    *,
    shared_name: str,
    shared_capacity: int = 1,
    container: str = "",
    name: Optional[str] = None,
) -> tf.Operation:
    """Waits until the steps of all earlier places are done with the sources.

    Args:
      place: int64 scalar, the number of the step; `NO_PLACE` does not wait.
      shared_name: Name of the buffer that the steps fill.
      shared_capacity: Maximum number of records, the same for all ops of a buffer.
      container: Resource container; '' is the default one.
      name: Name of the node.

    Returns:
      The operation. The sources must wait for it, and `tensor_buffer_turn_end` for the sources.
    """
    return load_library().tensor_buffer_turn(
        place=place,
        container=container,
        shared_name=shared_name,
        shared_capacity=shared_capacity,
        name=name,
    )


def tensor_buffer_turn_end(
    place: Any,
    *,
    shared_name: str,
    shared_capacity: int = 1,
    container: str = "",
    name: Optional[str] = None,
) -> tf.Operation:
    """Ends the turn of a step, as does the put or status in its place.

    Args:
      place: int64 scalar, the number of the step.
      shared_name: Name of the buffer that the steps fill.
      shared_capacity: Maximum number of records, the same for all ops of a buffer.
      container: Resource container; '' is the default one.
      name: Name of the node.

    Returns:
      The operation.
    """
    return load_library().tensor_buffer_turn_end(
        place=place,
        container=container,
        shared_name=shared_name,
        shared_capacity=shared_capacity,
        name=name,
    )


def tensor_buffer_cancel(
    status: Optional[Tuple[Any, Any]] = None,
    *,
    shared_name: str,
    shared_capacity: int = 1,
    container: str = "",
    name: Optional[str] = None,
) -> tf.Operation:
    """Drops all records and fails pending and later puts and takes until the buffer is resumed.

    Args:
      status: Error code (int32 scalar, `tf.errors.*`) and message (string scalar) of that failure.
        None: CANCELLED. The first of several cancels determines the status.
      shared_name: Name of the buffer.
      shared_capacity: Maximum number of records, the same for all ops of a buffer.
      container: Resource container; '' is the default one.
      name: Name of the node.

    Returns:
      The operation.

    Example:
      >>> tensor_buffer_cancel((tf.errors.DATA_LOSS, "row 17 is torn"), shared_name="batches")
    """
    return load_library().tensor_buffer_cancel(
        code=[] if status is None else [status[0]],
        message=[] if status is None else [status[1]],
        first_place=[],
        is_cancelled=True,
        container=container,
        shared_name=shared_name,
        shared_capacity=shared_capacity,
        name=name,
    )


def tensor_buffer_resume(
    first_place: Optional[Any] = None,
    *,
    shared_name: str,
    shared_capacity: int = 1,
    container: str = "",
    name: Optional[str] = None,
) -> tf.Operation:
    """Reopens a buffer for a runner: resets its records, error, closed state and places.

    Pending takes keep waiting; pending puts fail with CancelledError.

    Args:
      first_place: int64 scalar, the first place; puts in earlier places fail. None: 0.
      shared_name: Name of the buffer.
      shared_capacity: Its new maximum number of records: on a server, an earlier session's graph
        may have used another capacity, and records of other types.
      container: Resource container; '' is the default one.
      name: Name of the node.

    Returns:
      The operation, of type `TensorBufferCancel`.
    """
    return load_library().tensor_buffer_cancel(
        code=[],
        message=[],
        first_place=[] if first_place is None else [first_place],
        is_cancelled=False,
        container=container,
        shared_name=shared_name,
        shared_capacity=shared_capacity,
        name=name or "TensorBufferResume",
    )


def tensor_buffer_close(
    *, shared_name: str, shared_capacity: int = 1, container: str = "", name: Optional[str] = None
) -> tf.Operation:
    """Closes a buffer: later puts fail; takes get what is left, then OutOfRangeError.

    Args:
      shared_name: Name of the buffer.
      shared_capacity: Maximum number of records, the same for all ops of a buffer.
      container: Resource container; '' is the default one.
      name: Name of the node.

    Returns:
      The operation.
    """
    return load_library().tensor_buffer_close(
        container=container, shared_name=shared_name, shared_capacity=shared_capacity, name=name
    )


def tensor_buffer_size(
    *, shared_name: str, shared_capacity: int = 1, container: str = "", name: Optional[str] = None
) -> tf.Tensor:
    """The number of records in a buffer.

    Args:
      shared_name: Name of the buffer.
      shared_capacity: Maximum number of records, the same for all ops of a buffer.
      container: Resource container; '' is the default one.
      name: Name of the node.

    Returns:
      int32 scalar.
    """
    return load_library().tensor_buffer_size(
        container=container, shared_name=shared_name, shared_capacity=shared_capacity, name=name
    )


def tensor_buffer_metrics(
    *, shared_name: str, shared_capacity: int = 1, container: str = "", name: Optional[str] = None
) -> tf.Tensor:
    """What a buffer has seen since it was created.

    Args:
      shared_name: Name of the buffer.
      shared_capacity: Maximum number of records, the same for all ops of a buffer.
      container: Resource container; '' is the default one.
      name: Name of the node.

    Returns:
      int64 vector; `METRIC_NAMES` names its elements, `decode_metrics` turns its value into a dict.
    """
    return load_library().tensor_buffer_metrics(
        container=container, shared_name=shared_name, shared_capacity=shared_capacity, name=name
    )


def decode_metrics(values: Sequence[int]) -> Dict[str, int]:
    """The value of a `tensor_buffer_metrics` tensor as a dict.

    Args:
      values: One integer for each of `METRIC_NAMES`, in that order.

    Raises:
      ValueError: The number of values is wrong.

    Example:
      >>> decode_metrics(session.run(metrics))["take_wait_micros"]
      1520
    """
    if len(values) != len(METRIC_NAMES):
        raise ValueError(
            "need one value for each of the {} metrics, got {}".format(
                len(METRIC_NAMES), len(values)
            )
        )
    return {name: int(value) for name, value in zip(METRIC_NAMES, values)}
