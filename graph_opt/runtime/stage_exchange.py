"""What the steps of a stage tell the other ranks when they have no batch to look up.

For each batch every rank sends one message with ids. A step that fails before waits for its turn
and sends its error in their place, and all ranks do with the batch what they agree on. Only after
an agreed end, of the input or of a session, does a rank send nothing more. The last thread of a
stage that is stopped says so in place of the next batch, and nobody waits for it; if the others do
not come, it gives up after seconds.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Optional, Sequence

import numpy as np

from graph_opt.compat import callables, tf
from graph_opt.ops.exchange import is_agreed
from graph_opt.ops.stage_spec import StageSpec
from graph_opt.runtime.outcome import CLOSED, Status, outcome_of, status_of
from graph_opt.runtime.python_spec import PythonSpec
from graph_opt.runtime.stage_control import status_values
from graph_opt.runtime.stages import ExchangeTurns, Stage


class StageExchange:
    """The agreements of one stage's steps with those of other ranks, in one session.

    Args:
      session: A `tf.Session`.
      stage: The stage; its steps have places.
      turns: Its turns.

    Attributes:
      over: Whether this rank sends no more messages.
      broken: Whether that is because messages did not arrive, or another rank may wait for one.
    """

    def __init__(self, session: Any, stage: Stage, turns: ExchangeTurns) -> None:
        self._session = session
        self._stage = stage
        self._turns = turns
        self._lock = threading.Lock()
        self._calls: Dict[str, Callable[..., Any]] = {}
        self.over = False
        self.broken = False

    def agree(self, failed: Status, place: int) -> Optional[Status]:
        """What becomes of a step that has failed.

        Args:
          failed: Its error.
          place: Its place.

        Returns:
          The error that all ranks have in this place; None if the exchange is over.
        """
        if self.over:
            return None
        if self._has_begun(place):
            return self._judged(failed)
        try:
            self._wait_for_turn(place)
        except tf.errors.OpError:
            return None
        return self._sent(failed)

    def agreed_on(
        self, error: BaseException, place: int, python_side: PythonSpec, is_stopping: bool
    ) -> Optional[BaseException]:
        """What all ranks have in place of a batch that this one does not have; None at the end.

        Args:
          error: Of the step that has failed.
          place: Its place.
          python_side: What the stage's graph cannot hold.
          is_stopping: Whether the stage is being stopped.
        """
        spec = self._stage.spec
        outcome = outcome_of(error, spec, python_side)
        status = status_of(error)
        if is_stopping:
            self.hear(status, outcome == CLOSED)
            return error
        agreed = self.agree(sent_status(status, outcome, spec), place)
        if agreed is None:
            return None
        result = as_error(agreed)
        self.settle(place, agreed, outcome_of(result, spec, python_side) == CLOSED)
        return result

    def hear(self, failed: Status, ends_input: bool) -> None:
        """Notes the error of a step that has failed while the stage is being stopped.

        Args:
          failed: Its error, which may be that of another rank that has ended its stage.
          ends_input: Whether it means the end of input.
        """
        if is_agreed(failed.message) and _is_last(failed, ends_input):
            self.over = True

    def settle(self, place: int, agreed: Status, ends_input: bool) -> None:
        """Ends the turn of a step that has failed.

        Args:
          place: Its place.
          agreed: What `agree` has returned.
          ends_input: Whether that means the end of input.
        """
        if not (_is_last(agreed, ends_input) or self.over):
            self._call("turn_end", [self._turns.turn_end], [], [self._stage.place])(np.int64(place))
            return
        self.over = True
        feeds = [self._stage.status_code, self._stage.status_message]
        cancel = self._call("cancel", [self._turns.cancel], [], feeds)
        cancel(*status_values(tf.errors.CANCELLED, "the exchange with other ranks is over"))

    def leave(self, status: Status) -> None:
        """Tells the other ranks, unless the exchange is over, that this one has ended its stage.

        Waits until they are about to exchange the next batch.

        Args:
          status: Why.
        """
        if self.over:
            return
        self.over = True
        try:
            self._send(Status(tf.errors.CANCELLED, status.message))
        except (tf.errors.OpError, RuntimeError) as error:
            tf.logging.info("graph_opt: other ranks were not told of the end: %s", error)

    def _judged(self, failed: Status) -> Status:
        """An error after ids were sent: what other ranks have sent, or one of the exchange."""
        if not is_agreed(failed.message):
            self.over = self.broken = True
        return failed

    def _sent(self, failed: Status) -> Status:
        try:
            return self._send(failed)
        except tf.errors.OpError as error:
            self.over = self.broken = True
            text = "{} (other ranks were not told: {})".format(failed.message, error.message)
            return Status(failed.code, text)

    def _send(self, status: Status) -> Status:
        turns = self._turns
        feeds = [self._stage.status_code, self._stage.status_message]
        send = self._call("send", [], [turns.agreed_code, turns.agreed_message], feeds)
        code, message = send(*status_values(*status))
        return Status(int(code), _text(message))

    def _has_begun(self, place: int) -> bool:
        begun = self._call("begun", [], [self._turns.begun], [self._stage.place])
        return bool(begun(np.int64(place))[0])

    def _wait_for_turn(self, place: int) -> None:
        self._call("turn", [self._turns.turn], [], [self._stage.place])(np.int64(place))

    def _call(
        self, name: str, targets: Sequence[str], fetches: Sequence[str], feeds: Sequence[str]
    ) -> Callable[..., Any]:
        with self._lock:
            if name not in self._calls:
                self._calls[name] = callables.compile_call(
                    self._session,
                    fetches=fetches,
                    targets=targets,
                    feeds=feeds,
                    inter_op_thread_pool=callables.CALLER_THREAD,
                    timeout_millis=callables.NO_TIMEOUT,
                )
            return self._calls[name]


def sent_status(status: Status, outcome: str, stage: StageSpec) -> Status:
    """An error as other ranks are told: one that ends the input has a code that says so there."""
    if outcome != CLOSED or status.code in stage.closed_codes or not stage.closed_codes:
        return status
    return Status(stage.closed_codes[0], status.message)


def _is_last(agreed: Status, ends_input: bool) -> bool:
    """Whether no rank exchanges anything after a step with this error."""
    return ends_input or agreed.code == tf.errors.CANCELLED


def as_error(status: Status) -> tf.errors.OpError:
    """The error of TensorFlow with this code and message."""
    kind = tf.errors.exception_type_from_error_code(status.code)
    return kind(None, None, status.message)


def _text(value: Any) -> str:
    array = np.asarray(value, dtype=object)
    raw = array.item()
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
