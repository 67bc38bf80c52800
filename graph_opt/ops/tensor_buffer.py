"""Buffers of tensors between the threads of a stage and those that take from it.

All ops with the same `shared_name` on a device share one buffer. It holds at most
`shared_capacity` records; a record consists of the tensors of one batch, held by reference.

    put ──► [ record n+2 | error n+1 ] ──► take     one take hands out record n, the next fails

Several threads may fill a buffer. Each of their steps has a number, its place: it waits for its
turn to draw from the sources, and records leave in the order of places, whichever thread is faster.
A step that fails puts a status in its place.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

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
    "largest_bytes",
)
"""The elements of `TensorBuffer.metrics`, in order.

capacity, size: number of records it may hold, and holds now. put_count, take_count: number of
records put and taken, including errors. dropped: number of places left empty (skipped batches).
taken_bytes: bytes of the records taken. put_wait_micros, take_wait_micros: microseconds spent
waiting because it was full or empty, summed over all calls, including those still waiting.
put_waits, take_waits: number of calls that had to wait. pending_takes, pending_puts: number of
calls that are waiting now. closed, cancelled: 0 or 1. errors: number of errors put in place of
records. largest_bytes: bytes of the largest record taken since the buffer was last resumed.
"""


class TensorBuffer(NamedTuple):
    """A buffer, identified by what all its ops have in common.

    Attributes:
      shared_name: Name of the buffer.
      shared_capacity: Maximum number of records, the same for all ops of a buffer.
      container: Resource container; '' is the default one.

    Example:
      >>> batches = TensorBuffer("batches", 2)
      >>> put = batches.put([ids, rows])
      >>> ids, rows = batches.take([tf.int64, tf.float32])
    """

    shared_name: str
    shared_capacity: int = 1
    container: str = ""

    def put(
        self,
        record: Sequence[tf.Tensor],
        place: Optional[tf.Tensor] = None,
        timeout_millis: int = 0,
        name: Optional[str] = None,
    ) -> tf.Operation:
        """Puts a record into the buffer; while there is no room, waits without holding a thread.

        Args:
          record: The tensors of one batch, at least one, of any shape. They are not copied.
          place: int64 scalar, the number of the step among those that fill the buffer: records
            leave in the order of places. None or `NO_PLACE`: in the order of arrival.
          timeout_millis: Maximum wait in milliseconds; 0 for no limit.
          name: Name of the node.

        Returns:
          The operation. It fails with the buffer's error if the buffer is cancelled, with
          CancelledError if it is closed or the step is cancelled, and with DeadlineExceededError
          after the timeout.
        """
        return load_library().tensor_buffer_put(
            record=record,
            place=[] if place is None else [place],
            timeout_millis=timeout_millis,
            name=name,
            **self._asdict(),
        )

    def take(
        self,
        dtypes: Sequence[Any],
        shapes: Optional[Sequence[Any]] = None,
        timeout_millis: int = 0,
        runner_grace_millis: int = DEFAULT_RUNNER_GRACE_MILLIS,
        name: Optional[str] = None,
    ) -> List[tf.Tensor]:
        """Takes the next record; while there is none, waits without holding a thread.

        Args:
          dtypes: Dtypes of the record's tensors.
          shapes: Their static shapes, checked when a record is taken. None: all unknown.
          timeout_millis: Maximum wait in milliseconds; 0 for no limit.
          runner_grace_millis: Maximum wait in milliseconds for a buffer that nothing was ever put
            into and that no runner resumed; 0 for no limit.
          name: Name of the node.

        Returns:
          The record. The op fails with the error that was put in a record's place, with the
          buffer's error if the buffer is cancelled, with OutOfRangeError if it is closed and empty,
          with CancelledError if the step is cancelled, with DeadlineExceededError after the
          timeout, and with FailedPreconditionError after the grace period.
        """
        record = load_library().tensor_buffer_take(
            dtypes=dtypes,
            shapes=[] if shapes is None else shapes,
            timeout_millis=timeout_millis,
            runner_grace_millis=runner_grace_millis,
            name=name,
            **self._asdict(),
        )
        return list(record)

    def put_status(
        self, place: Any, code: Any, message: Any, name: Optional[str] = None
    ) -> tf.Operation:
        """Puts an error in the place of a record; waits for room without holding a thread.

        The take that gets it fails with this error; the next take gets the record after it.

        Args:
          place: int64 scalar, as for `put`; `NO_PLACE` means the order of arrival.
          code: int32 scalar, error code (`tf.errors.*`); 0 leaves the place empty, so that nobody
            waits for it.
          message: string scalar.
          name: Name of the node.

        Returns:
          The operation. It fails like a put.

        Example:
          >>> batches.put_status(7, tf.errors.DATA_LOSS, "row 17 is torn")
        """
        return load_library().tensor_buffer_put_status(
            place=place, code=code, message=message, name=name, **self._asdict()
        )

    def turn(self, place: Any, name: Optional[str] = None) -> tf.Operation:
        """Waits until the steps of all earlier places are done with the sources.

        Args:
          place: int64 scalar, the number of the step; `NO_PLACE` does not wait.
          name: Name of the node.

        Returns:
          The operation. The sources must wait for it, and `turn_end` for the sources.
        """
        return load_library().tensor_buffer_turn(place=place, name=name, **self._asdict())

    def turn_end(self, place: Any, name: Optional[str] = None) -> tf.Operation:
        """Ends the turn of a step, as does the put or status in its place.

        Args:
          place: int64 scalar, the number of the step.
          name: Name of the node.
        """
        return load_library().tensor_buffer_turn_end(place=place, name=name, **self._asdict())

    def cancel(
        self, status: Optional[Tuple[Any, Any]] = None, name: Optional[str] = None
    ) -> tf.Operation:
        """Drops all records and fails pending and later puts and takes until `resume`.

        Args:
          status: Error code (int32 scalar, `tf.errors.*`) and message (string scalar) of that
            failure. None: CANCELLED. The first of several cancels determines the status.
          name: Name of the node.

        Example:
          >>> batches.cancel((tf.errors.DATA_LOSS, "row 17 is torn"))
        """
        return load_library().tensor_buffer_cancel(
            code=[] if status is None else [status[0]],
            message=[] if status is None else [status[1]],
            first_place=[],
            is_cancelled=True,
            name=name,
            **self._asdict(),
        )

    def resume(
        self, first_place: Optional[Any] = None, name: str = "TensorBufferResume"
    ) -> tf.Operation:
        """Reopens the buffer for a runner: resets its records, error, closed state and places.

        Pending takes keep waiting; pending puts fail with CancelledError. The buffer gets this
        capacity: on a server, an earlier session's graph may have used another one, and records of
        other types.

        Args:
          first_place: int64 scalar, the first place; puts in earlier places fail. None: 0.
          name: Name of the node.

        Returns:
          The operation, of type `TensorBufferCancel`.
        """
        return load_library().tensor_buffer_cancel(
            code=[],
            message=[],
            first_place=[] if first_place is None else [first_place],
            is_cancelled=False,
            name=name,
            **self._asdict(),
        )

    def close(self, name: Optional[str] = None) -> tf.Operation:
        """Closes the buffer: later puts fail; takes get what is left, then OutOfRangeError."""
        return load_library().tensor_buffer_close(name=name, **self._asdict())

    def resize(self, capacity: Any, name: Optional[str] = None) -> tf.Operation:
        """Gives the buffer another capacity while it is in use, until it is resumed.

        Records beyond a smaller capacity stay until they are taken.

        Args:
          capacity: int64 scalar, at least 1.
          name: Name of the node.
        """
        return load_library().tensor_buffer_resize(capacity=capacity, name=name, **self._asdict())

    def size(self, name: Optional[str] = None) -> tf.Tensor:
        """The number of records in the buffer, an int32 scalar."""
        return load_library().tensor_buffer_size(name=name, **self._asdict())

    def metrics(self, name: Optional[str] = None) -> tf.Tensor:
        """What the buffer has seen since it was created.

        Returns:
          int64 vector; `METRIC_NAMES` names its elements, `decode_metrics` turns its value into a
          dict.
        """
        return load_library().tensor_buffer_metrics(name=name, **self._asdict())


def decode_metrics(values: Sequence[int]) -> Dict[str, int]:
    """The value of a `TensorBuffer.metrics` tensor as a dict.

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
