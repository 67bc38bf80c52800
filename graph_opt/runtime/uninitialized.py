"""What a stage does with batches that fail because something was not initialized yet.

A script may train before it runs its initializers, catch the error, run them and go on. Only the
batch of that step fails in TensorFlow; so a stage delivers its error to a step that waits for it,
drops it if main's step failed by itself, and begins no other batch before a step asks for it.
"""

from __future__ import annotations

import threading
import time
from typing import Callable, Dict, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.runtime.stage_control import BufferControl
from graph_opt.runtime.stages import Stage

_POLL_SECONDS = 0.01


class Uninitialized:
    """The batches of one stage that failed so.

    Stages whose steps go in turns (exchanges, gradients) go on as after any error.

    Args:
      stage: The stage.
      control: Of its session's buffers.
      is_over: Whether the stage ends.
    """

    def __init__(self, stage: Stage, control: BufferControl, is_over: Callable[[], bool]) -> None:
        self._stage = stage
        self._control = control
        self._is_over = is_over
        self._lock = threading.Lock()
        self._was_found = False
        self._failed_steps = 0
        self._begun_after: Dict[int, int] = {}  # Failed steps of main, by worker.
        self._delivers: Optional[int] = None

    def note_failed_step(self) -> None:
        """Notes that a step of main has failed so, after which its batch is not wanted."""
        with self._lock:
            self._failed_steps += 1

    def may_begin(self, worker: int) -> None:
        """Waits, if a batch has failed so, until a step waits for another one.

        Args:
          worker: The worker of the stage that is to begin a batch.
        """
        while True:
            with self._lock:
                if self._delivers == worker:
                    self._delivers = None
                if self._was_found and self._delivers is None and self._lacks_batch():
                    self._was_found = False
                if not self._was_found or self._is_over():
                    self._begun_after[worker] = self._failed_steps
                    return
            time.sleep(_POLL_SECONDS)

    def is_dropped(self, worker: int, error: BaseException) -> bool:
        """Waits for the step that an error is for, and says whether that has failed already.

        Args:
          worker: Whose batch failed; it puts the error if this returns False.
          error: Why it did.
        """
        in_turns = self._stage.exchange is not None or self._stage.pipeline is not None
        if in_turns or getattr(error, "error_code", None) != tf.errors.FAILED_PRECONDITION:
            return False
        was_awaited = False
        while not self._is_over():
            with self._lock:
                self._was_found = True
                if self._failed_steps != self._begun_after[worker]:
                    return True
                is_awaited = self._is_awaited()
                # At the second look: a step that fails by itself ends its take a moment later.
                if is_awaited and was_awaited:
                    self._delivers = worker
                    self._failed_steps += 1  # It will fail by this error.
                    return False
            was_awaited = is_awaited
            time.sleep(_POLL_SECONDS)
        return False

    def _is_awaited(self) -> bool:
        takes, _ = self._takes_and_records()
        return takes > 0

    def _lacks_batch(self) -> bool:
        """Whether a step waits for a batch, and not for earlier ones before it gets an error."""
        takes, records = self._takes_and_records()
        return takes > records

    def _takes_and_records(self) -> Tuple[int, int]:
        try:
            metrics = self._control.metrics(self._stage)
        except (tf.errors.OpError, RuntimeError):  # The session is ending, as the next step finds.
            return 1, 0
        return metrics["pending_takes"], metrics["size"]
