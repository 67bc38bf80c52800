"""Lookups that run ahead of nothing: a batch is begun only once a step of main asks for it.

So the rows of a batch have every update of the steps before, while all nodes, buffers and threads
of a rewritten graph work as ever. `graph_opt.checking` compares numbers this way, and so does a
session whose first steps are shadowed.

    main      step n .......... │ step n+1 asks ......... takes, computes, updates │ step n+2 asks
    prefetch                    └───────────► looks up ──► puts
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Dict, Iterable, MutableMapping, Optional

_POLL_SECONDS = 0.05


class LockStep:
    """What steps of a session have asked for, by stage."""

    def __init__(self) -> None:
        self._asked: Dict[str, threading.Semaphore] = {}
        self._lock = threading.Lock()
        self._is_open = False

    def open(self) -> None:
        """Lets all stages run ahead as they otherwise would."""
        self._is_open = True

    @property
    def is_open(self) -> bool:
        """Whether stages run ahead."""
        return self._is_open

    def ask(self, stages: Iterable[str]) -> None:
        """Lets each of these stages begin one more batch; called before a step that takes it."""
        for stage in stages:
            self._semaphore(stage).release()

    def forget(self, stages: Iterable[str]) -> None:
        """Drops what was asked of stages whose threads have ended, before they start again."""
        with self._lock:
            for stage in stages:
                self._asked.pop(stage, None)

    def wait(self, stage: str, is_stopping: Callable[[], bool]) -> bool:
        """Waits, in a thread of a stage, until it may begin a batch; False if it is to end."""
        asked = self._semaphore(stage)
        while not is_stopping():
            if self._is_open or asked.acquire(timeout=_POLL_SECONDS):
                return True
        return False

    def _semaphore(self, stage: str) -> threading.Semaphore:
        with self._lock:
            return self._asked.setdefault(stage, threading.Semaphore(0))


_of_sessions: MutableMapping[Any, LockStep] = weakref.WeakKeyDictionary()


def go_in_lock_step(session: Any) -> LockStep:
    """Makes the stages of a session that start from now on go in lock-step with main.

    Args:
      session: As `share_session` returns it.

    Returns:
      What steps of main must ask, the same for each call.

    Example:
      >>> lock_step = go_in_lock_step(share_session(session))
      >>> lock_step.ask(["async_embedding"])
      >>> session.run(train_op)
    """
    return _of_sessions.setdefault(session, LockStep())


def lock_step_of(session: Any) -> Optional[LockStep]:
    """What the stages of a session wait for; None for nothing."""
    return _of_sessions.get(session)
