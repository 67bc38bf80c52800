"""Sees that a step waits too long, whom for, and that other ranks have given up."""

from __future__ import annotations

import threading
import time
from typing import Callable, Dict, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.reporting.stderr import say
from graph_opt.sharding.rank_failure import FailureBoard, RankFailure
from graph_opt.sharding.step_clock import RankState, StepClock

_LOOK_SECONDS = 2.0
_LOOKS_IN_LIMIT = 4
# Without a limit, a step that waits this long is worth a line.
_NOTED_SECONDS = 60.0
_MOST_NAMED = 8


class RankWatch:
    """A thread that leaves this rank's state for the others, and reads theirs when a step waits.

    Args:
      board: Where ranks leave them.
      clock: Knows what this rank is doing.
      give_up: Called with the failure once a step has waited longer than its limit.

    Attributes:
      cause: Why the ranks can not go on, as soon as one has said so.
    """

    def __init__(
        self, board: FailureBoard, clock: StepClock, give_up: Callable[[RankFailure], None]
    ) -> None:
        self.cause: Optional[RankFailure] = None
        self._board = board
        self._clock = clock
        self._give_up = give_up
        self._noted = False
        self._thread: Optional[threading.Thread] = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Starts the thread, which ends with this rank or its group."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="graph_opt_rank_watch", daemon=True
                )
                self._thread.start()

    def _watch(self) -> None:
        try:
            while not self._look():
                time.sleep(self._pause())
        except OSError:
            pass  # The launcher, which has the store, is gone: so is the group.

    def _pause(self) -> float:
        limit = self._clock.stall_seconds
        return min(_LOOK_SECONDS, limit / _LOOKS_IN_LIMIT) if limit else _LOOK_SECONDS

    def _look(self) -> bool:
        """Returns whether there is nothing more to see."""
        self._board.leave_state(self._clock.state())
        self.cause = self._board.cause()
        if self.cause is not None or self._board.is_over():
            return True
        waited, limit = self._clock.seconds_in_step(), self._clock.stall_seconds
        if limit and waited > limit:
            failure = self._stalled(limit)
            if self._clock.seconds_in_step() > limit:  # still, after the others were asked
                self._give_up(failure)
        elif waited > _NOTED_SECONDS and not self._noted:
            say("{} (no stall_seconds is set)".format(self._stalled(0)))
        self._noted = waited > _NOTED_SECONDS
        return False

    def _stalled(self, limit: float) -> RankFailure:
        mine = self._clock.state()
        states = self._board.states(2 * _LOOK_SECONDS)
        rank = _missing(states, mine, self._board.rank)
        told = "; ".join(
            "rank {} {}".format(other, state or "does not answer")
            for other, state in sorted(states.items())[:_MOST_NAMED]
        )
        if len(states) > _MOST_NAMED:
            told += "; and {} more".format(len(states) - _MOST_NAMED)
        within = ", which is more than stall_seconds ({:g})".format(limit) if limit else ""
        text = "has kept rank {} waiting for {:.0f} s{}: rank {} {}; {}".format(
            self._board.rank, mine.seconds, within, self._board.rank, mine, told
        )
        return RankFailure(rank, tf.errors.DEADLINE_EXCEEDED, text)


def _missing(states: Dict[int, Optional[RankState]], mine: RankState, rank: int) -> int:
    """The rank that the others most likely wait for."""

    def behind(other: int) -> Tuple[int, float]:
        state = states[other]
        if state is None:
            return (0, 0)
        if not state.in_step:
            return (1, -state.seconds)
        return (2 if state.steps < mine.steps or state.message < mine.message else 3, state.steps)

    return min(states, key=behind) if states else rank
