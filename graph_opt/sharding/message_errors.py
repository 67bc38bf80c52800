"""What messages that fail are said to have failed with: the cause that all ranks name."""

from __future__ import annotations

import re
import threading
from typing import Any, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.step_calls import own_message
from graph_opt.sharding.rank_failure import FailureBoard, RankFailure
from graph_opt.sharding.row_channel import SECRET
from graph_opt.sharding.store import or_none

_FIND_SECONDS = 3.0
_SHUT_DOWN = re.compile(r"Horovod has been shut down|Horovod has not been initialized|Horovod back")
# What Gloo and MPI say of a message that was under way when another rank went, e.g.
# "[.../gloo/transport/tcp/pair.cc:598] Connection closed by peer".
_INTERRUPTED = re.compile(r"/gloo/\S+:\d+\] |\bMPI_\w+ failed")
_CANCELLED_RANK = re.compile(r"rank \d+ was cancelled")
_NOT_KNOWN = "which rank failed, and why, is not known"
_NOBODY_SAYS = "{} (" + _NOT_KNOWN + ": {})"
_NO_STORE = "under MPI, ranks of several machines say so only if all have a {}".format(SECRET)
_NO_ANSWER = "no rank has said so within {:.0f} s".format(_FIND_SECONDS)


class MessageErrors:
    """Finds the causes of errors in messages of one rank.

    Args:
      board: Where ranks say why they can not go on; None if there is nothing that carries it.

    Attributes:
      input_has_ended: Whether this rank knows that its input has ended, since the last step that
        went well.
    """

    def __init__(self, board: Optional[FailureBoard]) -> None:
        self.input_has_ended = False
        self._board = board
        self._asking = threading.Lock()
        self._found: Optional[RankFailure] = None  # by a message

    def explained(self, error: tf.errors.OpError) -> tf.errors.OpError:
        """What to raise in place of the error of a message."""
        text = str(error.message)
        if _NOT_KNOWN in text:
            return error
        in_process = not is_of_shutdown(text)
        board = self._board
        if board is None:
            return error if in_process else _without_cause(error, _NO_STORE)
        # Ranks of one process are told the cause, unless it is a step that was cancelled.
        waits = not in_process or _CANCELLED_RANK.search(text) is not None
        cause: Any = self._found if self.has_found(error) else None
        if cause is None:
            cause = or_none(lambda: board.find_cause(_FIND_SECONDS) if waits else board.cause())
        if cause is not None:
            agreed: RankFailure = or_none(lambda: board.tell(cause), cause)
            # The step that the others were told of may meet this before the message that says so.
            if agreed.code == tf.errors.OUT_OF_RANGE and not self.input_has_ended:
                return tf.errors.OutOfRangeError(None, None, str(agreed))
            return agreed.error()
        return error if in_process else _without_cause(error, _NO_ANSWER)

    def has_found(self, error: tf.errors.OpError) -> bool:
        """Whether an error, of whatever node, is what `cause_of` has found."""
        return self._found is not None and str(self._found) in str(error.message)

    def cause_of(self, code: int, text: str) -> Optional[Tuple[int, str]]:
        """For `find_causes`: why Horovod is shut down, if that is what a message has met."""
        if not is_of_shutdown(text):
            return None
        board = self._board
        if board is None:
            return code, _NOBODY_SAYS.format(text, _NO_STORE)
        with self._asking:
            found = self._found = or_none(lambda: board.find_cause(_FIND_SECONDS))
        if found is None:
            return code, _NOBODY_SAYS.format(text, _NO_ANSWER)
        return code, str(found)  # a code that no stage takes for an end, or ignores


def is_of_shutdown(text: str) -> bool:
    """Whether an error says that Horovod is shut down, or has lost a rank: never the cause."""
    return any(pattern.search(text) for pattern in (_SHUT_DOWN, _INTERRUPTED))


def _without_cause(error: tf.errors.OpError, why: str) -> tf.errors.OpError:
    message = _NOBODY_SAYS.format(own_message(error), why)
    return type(error)(error.node_def, error.op, message)
