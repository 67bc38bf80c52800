"""What a rank does for the savers of the others: it serves its rows, and takes rows that they read.

Scripts save and restore on one rank only, between any two steps. So the rank that saves asks the
others for their rows, and a rank that restores tells the others from which file.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from typing import Any, Callable, Iterator, List, Optional, Set

from graph_opt.compat import tf
from graph_opt.reporting.stderr import say
from graph_opt.sharding.held_sessions import HeldSession, HeldSessions, Moment
from graph_opt.sharding.rank_failure import FailureBoard
from graph_opt.sharding.rank_shares import share_of_plain
from graph_opt.sharding.restored_agreement import RestoredAgreement
from graph_opt.sharding.restored_rows import (
    FILE,
    TENSORS,
    Restored,
    answer_for_file,
    restore_like,
    restored_of,
)
from graph_opt.sharding.row_server import WAIT, Answer, AskedRanks, Head, RowServer
from graph_opt.sharding.share_files import LENT, LENT_ENDS, LentFiles
from graph_opt.sharding.store import Store
from graph_opt.sharding.whole_tables import Place

ROWS, SHARES, STATE, RESTORE, AGREE = "rows", "shares", "state", "restore", "agree"
RESTORED = "restored"
_YES, _NO = b"+", b"-"
_ANSWER_SECONDS = 1.0
_LOOK_SECONDS = 0.25
_PARKED_SECONDS = 5.0
_PARKED_LOOK_SECONDS = 0.02
_BEYOND_SECONDS = 2.0
_NOTED_SECONDS = 30.0
_KEPT_SECONDS = 300.0
_NORMAL_ENDS = (tf.errors.OutOfRangeError, StopIteration)


class RowService:
    """Serves the rows of one rank.

    Args:
      store: What the ranks tell each other.
      board: Where they say that they have failed or ended.
      check: Raises an error if one has.
      size: Number of ranks.
      in_step: Whether this rank is in a step with messages.
    """

    def __init__(
        self,
        store: Store,
        board: FailureBoard,
        check: Callable[[], None],
        size: int,
        in_step: Callable[[], bool],
    ) -> None:
        self.sessions = HeldSessions()
        self.rank = board.rank
        self.size = size
        self._store = store
        self._board = board
        self._check = check
        self._in_step = in_step
        self._lent = LentFiles()
        self._announced: Set[str] = set()
        self._agreement = RestoredAgreement(size)
        self._sharing = threading.Lock()
        self._server: Optional[RowServer] = None
        self._served = time.monotonic()

    def hold(self, session: Any) -> HeldSession:
        """Called before each step of a session whose graph has sharded tables."""
        held = self.sessions.hold(session)
        if self._server is None:
            self._server = RowServer(self._store, self.rank, self.size, self._answer)
        return held

    @contextlib.contextmanager
    def step(self, held: HeldSession) -> Iterator[None]:
        """While such a session runs a step with messages."""
        if self.sessions.number(held):
            self._agree_on_restored(held)
        with self.sessions.step(held):
            yield

    def asking(self, purpose: str) -> AskedRanks:
        """Connections to other ranks."""
        return AskedRanks(self._store, self._check, "rank {} {}".format(self.rank, purpose))

    def note_restored(self, held: HeldSession, restored: Restored) -> None:
        """Called when a session has restored its own rows.

        Before its first step with messages, all ranks say what they have restored. Later ones are
        told at once, as no rank can be ahead.
        """
        self._announced.add(restored.prefix)
        held.restored.append(restored)
        if held.steps == 0:
            return
        moment = self.sessions.moment(held)
        request = {"ask": RESTORE, "restored": restored.plain(), "at": list(moment)}
        with held.waiting(), self.asking("restores '{}'".format(restored.prefix)) as asked:
            asked.ask_all({rank: request for rank in range(self.size) if rank != self.rank})

    def close(self, session: Any, error: Optional[BaseException] = None) -> None:
        """Called before a session is closed: other ranks may still save.

        Args:
          session: The session.
          error: What ends it.
        """
        held = self.sessions.find(session)
        if held is None:
            return
        if held.number is not None and _is_normal_end(error):
            # Without an error if the launcher, which has the store, is gone.
            with contextlib.suppress(OSError), held.waiting():
                self._wait_for_others(held)
        self.sessions.release(session)

    def close_all(self) -> None:
        """Called when the program ends."""
        for held in self.sessions.numbered:
            self.close(held.rows.session)

    # What this rank answers.

    def _answer(self, request: Head) -> Answer:
        self._served = time.monotonic()
        kind = request["ask"]
        if kind in (TENSORS, FILE):
            self._check_announced(request["prefix"])
            return answer_for_file(request)
        if kind == AGREE:
            every = self._agreement.say(
                request["session"], request["rank"], request[RESTORED], _ANSWER_SECONDS
            )
            if every is None:
                return {WAIT: "has not been told by all ranks what they have restored"}, []
            return {RESTORED: every}, []
        if kind in (LENT, LENT_ENDS):
            return self._lent.answer(request)
        if kind == STATE:
            return self._state(request["session"]), []
        moment = Moment(*request["at"])
        held = self.sessions.at(moment, _ANSWER_SECONDS)
        if isinstance(held, str):
            return {WAIT: held}, []
        if kind == RESTORE:
            self._restore(held, restored_of(request["restored"]))
            return {}, []
        if kind == SHARES:
            return self._save_shares(held, request), []
        place = Place(request["variable"], request["number"])
        if held.steps == 0 and not held.rows.has_values(place):
            time.sleep(_LOOK_SECONDS)
            return {WAIT: "has not initialized '{}' yet".format(place.variable)}, []
        return {}, [held.rows.read(place, request["first"], request["count"])[1]]

    def _check_announced(self, prefix: str) -> None:
        """Other ranks get what this one has told them to restore, and no other file."""
        if prefix not in self._announced:
            raise PermissionError("{!r} was not restored here".format(prefix))

    def _state(self, number: int) -> Head:
        for held in self.sessions.numbered:
            if held.number == number:
                return held.state
        return {"begun": 0, "in_step": False}

    def _restore(self, held: HeldSession, restored: Restored) -> None:
        """Reads what another rank has restored between two steps."""
        self._wait_until_parked(held)
        if any(one[1:] == restored[1:] for one in held.restored):
            return
        with self.asking("restores its rows") as asked:
            restore_like(restored, held.rows, lambda request: asked.ask(restored.rank, request))
        held.restored.append(restored)

    def _save_shares(self, held: HeldSession, request: Head) -> Head:
        """Writes what this rank has of tables whose rows come and go."""
        with self._sharing:
            shares = [share_of_plain(one) for one in request["shares"]]
            have = {name for one in held.restored for name in one.variables}
            for restored in map(restored_of, request["restored"]):
                if restored.shares and restored.variables - have:
                    self._restore(held, restored.without(have))
            if not held.rows.can_save(shares):
                self._wait_until_parked(held)
            if held.steps == 0 and not held.rows.has_shares(shares):
                time.sleep(_LOOK_SECONDS)
                return {WAIT: "has not initialized '{}' yet".format(shares[0].table)}
            folder, write = request["folder"], held.rows.save_share
            answered: Head = self._lent.write(shares, self.rank, folder, write)
            return answered

    def _wait_until_parked(self, held: HeldSession) -> None:
        """Waits until nobody else changes the graph, as its thread waits for other ranks."""
        end = time.monotonic() + _PARKED_SECONDS
        while not (self._in_step() or held.waits) and time.monotonic() < end:
            time.sleep(_PARKED_LOOK_SECONDS)

    # What all ranks do together.

    def _agree_on_restored(self, held: HeldSession) -> None:
        every = self._told_by_all(held.number, [one.plain() for one in held.restored])
        have = {name for restored in held.restored for name in restored.variables}
        # Of what a rank has restored twice, the last one counts.
        for plain in (one for of_rank in every for one in reversed(of_rank)):
            missing = restored_of(plain).without(have)
            if missing.variables:
                self._restore_missing(held, missing)
                have.update(missing.variables)

    def _restore_missing(self, held: HeldSession, restored: Restored) -> None:
        try:
            with self.asking("restores its rows") as asked:
                restore_like(restored, held.rows, lambda request: asked.ask(restored.rank, request))
        except (OSError, ValueError) as error:
            raise tf.errors.UnknownError(None, None, str(error)) from error

    def _told_by_all(self, session: Optional[int], mine: List[Any]) -> List[Any]:
        """What all ranks have restored, by rank."""
        if self.rank:
            request = {"ask": AGREE, "session": session, "rank": self.rank, RESTORED: mine}
            purpose = "rank {} begins to train".format(self.rank)
            with AskedRanks(self._store, self._check, purpose, math.inf) as asked:
                every: List[Any] = asked.ask(0, request)[0][RESTORED]
                return every
        while True:
            said = self._agreement.say(session, 0, mine, _LOOK_SECONDS)
            if said is not None:
                return said
            self._check()

    # Until the others are done.

    def _wait_for_others(self, held: HeldSession) -> None:
        done = "rows_done_{}".format(held.number)
        self._store.set("{}_{}".format(done, self.rank), _YES)
        self._store.set(_waiting_key(self.rank), _YES)
        wait = _Wait(self, held)
        if self.rank == 0:
            for rank in range(1, self.size):
                wait.for_rank(rank, ("{}_{}".format(done, rank), _waiting_key(rank)))
            self._store.set(done, _YES)
        else:
            wait.for_rank(0, (done,))
        self._store.set(_waiting_key(self.rank), _NO)

    def is_over(self, rank: int) -> bool:
        """Whether a rank can ask for nothing any more."""
        return self._board.cause() is not None or self._board.has_ended(rank)

    def has_said(self, keys: Any) -> bool:
        """Whether one of these is set."""
        return any(self._store.get(key) == _YES for key in keys)

    @property
    def look_seconds(self) -> float:
        """How often to ask the store."""
        return self._store.look_seconds

    def seconds_unasked(self) -> float:
        """How long ago another rank has asked for something."""
        return time.monotonic() - self._served


def _is_normal_end(error: Optional[BaseException]) -> bool:
    if isinstance(error, SystemExit):
        return not error.code
    return error is None or isinstance(error, _NORMAL_ENDS)


class _Wait:
    """Until other ranks need no rows of a session any more."""

    def __init__(self, service: RowService, held: HeldSession) -> None:
        self._service = service
        self._held = held
        self._begun = time.monotonic()
        self._noted = False

    def for_rank(self, rank: int, keys: Any) -> None:
        """Returns when a rank has said so, is over, waits for this one, or asks for nothing."""
        service = self._service
        beyond_since: Optional[float] = None
        while not service.has_said(keys) and not service.is_over(rank):
            now = time.monotonic()
            if not self._is_beyond(rank):
                beyond_since = None
            elif beyond_since is None:
                beyond_since = now
            elif now - beyond_since > _BEYOND_SECONDS:
                return
            waited = now - self._begun
            if min(waited, service.seconds_unasked()) > _KEPT_SECONDS:
                say(
                    "rank {} closes its session, and with it its rows of sharded tables: rank {} "
                    "has neither closed its own nor saved for {:.0f} s".format(
                        service.rank, rank, _KEPT_SECONDS
                    )
                )
                return
            if waited > _NOTED_SECONDS and not self._noted:
                self._noted = True
                say(
                    "rank {} keeps its rows of sharded tables until rank {} closes its session, "
                    "too".format(service.rank, rank)
                )
            time.sleep(service.look_seconds if waited > 1 else 0.01)

    def _is_beyond(self, rank: int) -> bool:
        """Whether a rank is in a step that this one has not begun, and so waits for it."""
        if time.monotonic() - self._begun < 1:
            return False
        try:
            with self._service.asking("closes its session") as asked:
                state, _ = asked.ask(rank, {"ask": STATE, "session": self._held.number})
        except tf.errors.OpError:
            return False
        return bool(state["in_step"]) and state["begun"] > self._held.begun


def _waiting_key(rank: int) -> str:
    return "rows_waiting_{}".format(rank)
