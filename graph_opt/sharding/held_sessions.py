"""The sessions of a rank that train sharded tables, as the other ranks know them.

All ranks run the same steps with messages. So the n-th session that runs one is the n-th on every
rank, and after k of these steps no rank has updated rows more than k times: a rank that is in its
next step waits there for the gradients of the others.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Union

from graph_opt.graph.operations import operations_behind
from graph_opt.sharding.early_writes import writes_to
from graph_opt.sharding.restored_rows import Restored
from graph_opt.sharding.session_rows import SessionRows


class Moment(NamedTuple):
    """A point in training that all ranks know.

    Attributes:
      session: Number of the session.
      steps: How many steps with messages it has run.
    """

    session: int
    steps: int


class HeldSession:
    """A session of this rank.

    Attributes:
      rows: Its rows.
      number: Its place among the sessions that have run steps with messages; None until then.
      steps: How many of these it has run.
      begun: How many it has begun, whether or not they have failed.
      in_step: Whether it is in one.
      at_new_step: Whether it waits for the others to begin a step of a kind that is new to it.
      waits: Whether its thread waits for other ranks between two steps.
      restored: What it has restored since its last step.
    """

    def __init__(self, session: Any) -> None:
        self.rows = SessionRows(session)
        self.number: Optional[int] = None
        self.steps = 0
        self.begun = 0
        self.in_step = False
        self.at_new_step = False
        self.waits = False
        self.restored: List[Restored] = []

    def note_written(self, operations: Iterable[Any], feeds: Iterable[Any]) -> None:
        """Called when the script has run operations between two steps, as all ranks do.

        Rows that they wrote are not what was restored any more, so other ranks keep theirs, too.
        """
        if not self.restored:
            return
        variables = self.rows.variables.keys()
        written = {
            one.inputs[0].op.name
            for one in operations_behind(operations, feeds)
            if writes_to(one, variables)
        }
        if written:
            left = [one.without(written) for one in self.restored]
            self.restored = [one for one in left if one.variables]

    @property
    def state(self) -> Dict[str, Any]:
        """How many steps it has begun, and whether it is in the last one, as JSON."""
        return {
            "begun": self.begun + int(self.at_new_step),
            "in_step": self.in_step or self.at_new_step,
        }

    @contextlib.contextmanager
    def comparing(self) -> Iterator[None]:
        """While ranks compare a step of a new kind, for which one that has ended never comes."""
        self.at_new_step = True
        try:
            yield
        finally:
            self.at_new_step = False

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """While its thread waits for other ranks between two steps, and leaves its graph alone."""
        self.waits = True
        try:
            yield
        finally:
            self.waits = False


class HeldSessions:
    """All of them. A session is kept until it is closed, or another trains sharded tables."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: Dict[int, HeldSession] = {}
        self._numbered = 0

    def hold(self, session: Any) -> HeldSession:
        """Called before each step of a session."""
        with self._changed:
            held = self._held.get(id(session))
            if held is None:
                held = self._held[id(session)] = HeldSession(session)
        held.rows.prepare()
        return held

    def find(self, session: Any) -> Optional[HeldSession]:
        """A session that is held."""
        return self._held.get(id(session))

    def release(self, session: Any) -> None:
        """Called when a session is closed."""
        with self._changed:
            self._held.pop(id(session), None)
            self._changed.notify_all()

    @property
    def numbered(self) -> List[HeldSession]:
        """Those that have run steps with messages, and are open."""
        with self._changed:
            return [held for held in self._held.values() if held.number is not None]

    def number(self, held: HeldSession) -> bool:
        """Gives a session its number before its first step; returns whether it had none."""
        with self._changed:
            if held.number is not None:
                return False
            held.number = self._numbered
            self._numbered += 1
            for key, other in list(self._held.items()):
                if other.number is None or other.rows.is_closed():
                    del self._held[key]
            self._changed.notify_all()
            return True

    @contextlib.contextmanager
    def step(self, held: HeldSession) -> Iterator[None]:
        """While a session runs a step with messages."""
        with self._changed:
            held.begun += 1
            held.in_step = True
        try:
            yield
        except BaseException:
            self._end_step(held, 0)
            raise
        self._end_step(held, 1)

    def moment(self, held: HeldSession) -> Moment:
        """Where a session is."""
        with self._changed:
            number = self._numbered if held.number is None else held.number
            return Moment(number, held.steps)

    def at(self, moment: Moment, wait_seconds: float) -> Union[HeldSession, str]:
        """The session that has come as far as that, or what it still has to do.

        Raises:
          ValueError: It is closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._has_come(moment) is not None, wait_seconds)
            found = self._has_come(moment)
            return self._lacks(moment) if found is None else found

    def _end_step(self, held: HeldSession, ran: int) -> None:
        with self._changed:
            held.in_step = False
            held.steps += ran
            if ran:
                held.restored = []
            self._changed.notify_all()

    def _has_come(self, moment: Moment) -> Optional[HeldSession]:
        held = self._session(moment)
        return held if held is not None and held.steps >= moment.steps else None

    def _session(self, moment: Moment) -> Optional[HeldSession]:
        for held in self._held.values():
            if held.number == moment.session:
                return held
        if moment.session < self._numbered:
            raise ValueError("the session that trained these tables is closed")
        new = [held for held in self._held.values() if held.number is None]
        return new[-1] if new and moment.session == self._numbered else None

    def _lacks(self, moment: Moment) -> str:
        held = self._session(moment)
        if held is None:
            return "has not opened its session yet"
        return "has run {} of {} steps".format(held.steps, moment.steps)
