"""Ranks compare what they are about to exchange before they exchange it."""

from __future__ import annotations

import time
from typing import Callable, List, Optional

from graph_opt.compat import tf
from graph_opt.sharding.plan_digest import difference
from graph_opt.sharding.store import Store

_NOTE_SECONDS = 0.5
_SAME = b"-"
_NO_PLAN = b""
ADVICE = "build the same graph, with the same options, on all ranks"


class PlanAgreement:
    """Compares the plans of all ranks, one after another.

    Args:
      store: Where ranks leave them.
      rank: Number of this rank.
      size: Number of ranks.
    """

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._number = 0
        self._agreed: List[bytes] = []
        self._steps_alone = 0
        self._noted = -_NOTE_SECONDS

    def note_step_without_messages(self) -> None:
        """Says that this rank is training something on its own."""
        self._steps_alone += 1
        now = time.monotonic()
        if now - self._noted >= _NOTE_SECONDS:
            self._noted = now
            self._store.set(_alone(self._rank), str(self._steps_alone).encode("utf-8"))

    def agree(self, plan: bytes, check: Callable[[], None], alone_seconds: float) -> None:
        """Returns once all ranks have the same plan; at once if this one is known.

        Args:
          plan: This rank's.
          check: Raises an error if there is no point in waiting.
          alone_seconds: How long to wait for a rank that goes on training without messages.

        Raises:
          tf.errors.InvalidArgumentError: On all ranks: two of them have different plans.
          TrainsAloneError: A rank has none.
        """
        if plan in self._agreed:
            return
        number = self._number
        self._store.set(_key(number, self._rank), plan)
        try:
            found = self._difference(number, plan, check, alone_seconds)
        except Exception:
            self._store.set(_key(number, self._rank), _NO_PLAN)  # as if it had never been asked
            raise
        self._number += 1
        if found:
            raise tf.errors.InvalidArgumentError(
                None, None, "ranks are about to run different graphs: {}; {}".format(found, ADVICE)
            )
        self._agreed.append(plan)

    def _difference(
        self, number: int, plan: bytes, check: Callable[[], None], alone_seconds: float
    ) -> Optional[str]:
        verdict = "plan_{}_difference".format(number)
        if self._rank == 0:
            found = self._first_difference(number, plan, check, alone_seconds)
            self._store.set(verdict, (found or "").encode("utf-8") or _SAME)
            return found
        told = self._wait_for(verdict, 0, check, alone_seconds)
        return None if told == _SAME else told.decode("utf-8")

    def _first_difference(
        self, number: int, plan: bytes, check: Callable[[], None], alone_seconds: float
    ) -> Optional[str]:
        found = None
        for rank in range(1, self._size):
            other = self._wait_for(_key(number, rank), rank, check, alone_seconds)
            found = found or difference(plan, 0, other, rank)
        return found

    def _wait_for(
        self, key: str, rank: int, check: Callable[[], None], alone_seconds: float
    ) -> bytes:
        end = time.monotonic() + alone_seconds
        steps_alone: Optional[bytes] = None
        while True:
            left = self._store.get(key, self._store.look_seconds) or self._left_before(check, key)
            if left:
                return left
            if time.monotonic() < end:
                continue
            before, steps_alone = steps_alone, self._store.get(_alone(rank))
            if before not in (None, steps_alone):
                raise TrainsAloneError(rank)

    def _left_before(self, check: Callable[[], None], key: str) -> Optional[bytes]:
        """Lets `check` raise its error, unless the rank has left what is waited for meanwhile.

        It leaves that before it does what `check` finds.
        """
        try:
            check()
        except Exception:
            left = self._store.get(key)
            if not left:
                raise
            return left
        return None


class TrainsAloneError(Exception):
    """A rank runs training steps without messages.

    Attributes:
      rank: The rank.
    """

    def __init__(self, rank: int) -> None:
        super().__init__("rank {} trains without messages".format(rank))
        self.rank = rank


def _key(number: int, rank: int) -> str:
    return "plan_{}_{}".format(number, rank)


def _alone(rank: int) -> str:
    return "alone_{}".format(rank)
