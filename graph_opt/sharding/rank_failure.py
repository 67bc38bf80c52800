"""Why the ranks of a group can not go on: one cause, which all of them name."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Dict, List, NamedTuple, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.step_calls import own_message
from graph_opt.sharding.step_clock import RankState, decoded_state
from graph_opt.sharding.store import Store, any_has_ended, end_of, note_end

_LOCAL_RANK, _LOCAL_SIZE = "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"  # Set by Horovod's launcher.
_CAUSE = "failure"
_SETTLE_SECONDS = 0.05
_POLL_SECONDS = 0.05
# How many processes to ask for at a time, as all ranks do.
_ASKED_PROCESSES = 4
# Monitored sessions open a new session after these, and would do so forever.
_RETRIED = (tf.errors.ABORTED, tf.errors.UNAVAILABLE)
# Scripts take these for the end of their own input, or of the session.
_EXPECTED = (tf.errors.OUT_OF_RANGE, tf.errors.CANCELLED, tf.errors.OK)


class RankFailure(NamedTuple):
    """What happened to a rank.

    Attributes:
      rank: The rank.
      code: A code of `tf.errors`.
      text: What follows "rank R ": "failed: ...", "has ended".
    """

    rank: int
    code: int
    text: str

    def __str__(self) -> str:
        return "rank {} {}".format(self.rank, self.text)

    def error(self) -> tf.errors.OpError:
        """What the steps of the other ranks fail with."""
        unusable = self.code in _RETRIED or self.code in _EXPECTED
        code = tf.errors.UNKNOWN if unusable else self.code
        return tf.errors.exception_type_from_error_code(code)(None, None, str(self))


def failure_of(rank: int, error: BaseException) -> RankFailure:
    """The failure of a rank that has raised `error`."""
    name = type(error).__name__
    if isinstance(error, tf.errors.OpError):
        return RankFailure(rank, int(error.error_code), _failed(name, own_message(error)))
    return RankFailure(rank, tf.errors.UNKNOWN, _failed(name, str(error)))


class FailureBoard:
    """Where the ranks of a group find why they can not go on, whatever became of their messages.

    Args:
      store: Their store.
      rank: Number of this rank.
      size: Number of ranks.

    Attributes:
      rank: Number of this rank.
    """

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self.rank = rank
        self._store = store
        self._size = size
        self._states_left = 0
        self._processes: Dict[int, str] = {}  # of ranks that may be of this machine
        self._unknown = [one for one in _ranks_nearby(rank, size) if one != rank]

    def enter(self) -> None:
        """Says which process this rank is."""
        place = "{} {}".format(_this_machine(), os.getpid())
        self._store.set("process_{}".format(self.rank), place.encode("utf-8"))

    def leave(self) -> None:
        """Says that this rank's program is over."""
        note_end(self._store, self.rank, "has ended")

    def tell(self, failure: RankFailure) -> RankFailure:
        """Says what the cause is, unless another is known, and returns the one that all name."""
        known = self.cause()
        if known is not None:
            return known
        self._store.set(_CAUSE, json.dumps(failure._asdict()).encode("utf-8"))
        time.sleep(_SETTLE_SECONDS)  # another rank may have said something else
        return self.cause() or failure

    def cause(self) -> Optional[RankFailure]:
        """The cause, if one is known."""
        told = self._store.get(_CAUSE)
        return RankFailure(**json.loads(told.decode("utf-8"))) if told else None

    def find_cause(self, timeout_seconds: float) -> Optional[RankFailure]:
        """The cause of an error in a message: told by a rank, or a rank that has ended."""
        end = time.monotonic() + timeout_seconds
        while True:
            found = self.cause() or self.ended()
            if found is not None:
                return found
            if time.monotonic() > end:
                return None
            time.sleep(_POLL_SECONDS)

    def ended(self) -> Optional[RankFailure]:
        """The first rank that has ended, whether it says so or its process is gone."""
        if any_has_ended(self._store):
            told = next(filter(None, map(self._told_end, self._others())), None)
            if told is not None:
                return told
        for rank in self._unknown[:_ASKED_PROCESSES]:
            self._process_of(rank)
        gone = [rank for rank in sorted(self._processes) if _is_gone(self._processes[rank])]
        return _killed(gone[0]) if gone else None

    def has_ended(self, rank: int) -> bool:
        """Whether a rank has."""
        if any_has_ended(self._store) and self._told_end(rank) is not None:
            return True
        process = self._process_of(rank)
        return process is not None and _is_gone(process)

    def _told_end(self, rank: int) -> Optional[RankFailure]:
        told = end_of(self._store, rank)
        return RankFailure(rank, tf.errors.UNKNOWN, _without_rank(told, rank)) if told else None

    def _process_of(self, rank: int) -> Optional[str]:
        """The process of a rank, if it may be of this machine and has said so."""
        if rank in self._unknown:
            self._unknown.remove(rank)
            process = self._store.get("process_{}".format(rank))
            if process:
                self._processes[rank] = process.decode("utf-8")
            else:
                self._unknown.append(rank)  # others are asked for first
        return self._processes.get(rank)

    def is_over(self) -> bool:
        """Whether this rank has said that its program is over."""
        return end_of(self._store, self.rank) is not None

    def leave_state(self, state: RankState) -> None:
        """Says what this rank is doing."""
        self._states_left += 1
        left = "{} ".format(self._states_left).encode("utf-8") + state.encoded()
        self._store.set("state_{}".format(self.rank), left)

    def states(self, within_seconds: float) -> Dict[int, Optional[RankState]]:
        """What the other ranks are doing; None for those that say nothing within this time."""
        before = {rank: self._state(rank) for rank in self._others()}
        after = dict(before)
        end = time.monotonic() + within_seconds
        while time.monotonic() < end and any(after[rank] == before[rank] for rank in before):
            time.sleep(_POLL_SECONDS)
            after = {rank: self._state(rank) for rank in before}
        return {
            rank: None
            if left is None or left == before[rank]
            else decoded_state(left.partition(b" ")[2])
            for rank, left in after.items()
        }

    def last_states(self) -> Dict[int, RankState]:
        """What those were doing, when they last said so, that this rank would wait for.

        Ranks wait for rank 0, and only that waits for all of them.
        """
        left = {rank: self._state(rank) for rank in ([0] if self.rank else self._others())}
        return {rank: decoded_state(one.partition(b" ")[2]) for rank, one in left.items() if one}

    def _state(self, rank: int) -> Optional[bytes]:
        return self._store.get("state_{}".format(rank))

    def _others(self) -> List[int]:
        return [rank for rank in range(self._size) if rank != self.rank]


def _failed(name: str, message: str) -> str:
    return "failed: {}: {}".format(name, message)


def _killed(rank: int) -> RankFailure:
    text = "ended without a word: it was killed, or ran out of memory"
    return RankFailure(rank, tf.errors.UNKNOWN, text)


def _ranks_nearby(rank: int, size: int) -> Sequence[int]:
    """Ranks that may be on this machine: launchers number those of a machine one after another."""
    local_rank, local_size = os.environ.get(_LOCAL_RANK, ""), os.environ.get(_LOCAL_SIZE, "")
    if not (local_rank.isdigit() and local_size.isdigit()):
        return range(size)
    first = rank - int(local_rank)
    return range(max(0, first), min(size, first + int(local_size)))


def _without_rank(text: str, rank: int) -> str:
    """What the launcher says begins with the rank."""
    start = "rank {} ".format(rank)
    return text[len(start) :] if text.startswith(start) else text


def _this_machine() -> str:
    """Where process numbers mean the same: a container has its own."""
    try:
        return "{}:{}".format(socket.gethostname(), os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return socket.gethostname()


def _is_gone(process: str) -> bool:
    """Whether a process of this machine is dead; of others only Horovod knows."""
    machine, _, number = process.partition(" ")
    if machine != _this_machine():
        return False
    try:
        with open("/proc/{}/stat".format(number)) as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return os.path.isdir("/proc/self")
