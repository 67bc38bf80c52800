"""Which runner fills which stage of a session, so that two hooks do not start its threads twice."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any, Dict, List, MutableMapping, Sequence

from graph_opt.compat import tf
from graph_opt.runtime.stages import Stage

# A stage that has ended still tells other ranks so; they may take as long to come there.
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.005

_senders: Dict[str, Any] = {}
_runners: MutableMapping[Any, Dict[str, Any]] = weakref.WeakKeyDictionary()
_known: MutableMapping[Any, List[Any]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def claim(session: Any, stages: Sequence[Stage], runner: Any) -> List[Stage]:
    """Assigns to the runner the stages that no runner of this session has; returns them."""
    with _lock:
        taken = _runners.setdefault(session, {})
        free = [stage for stage in stages if stage.name not in taken]
        taken.update({stage.name: runner for stage in free})
        _known.setdefault(session, []).append(weakref.ref(runner))
        return free


def release(session: Any, runner: Any) -> None:
    """Frees the runner's stages. Until then, they keep the runner and its session alive."""
    with _lock:
        taken = _runners.get(session, {})
        for name in [name for name, owner in taken.items() if owner is runner]:
            del taken[name]


def runners_of(session: Any) -> List[Any]:
    """All runners that the session has had and that still exist, the latest last."""
    with _lock:
        known = [reference() for reference in _known.get(session, [])]
    return [runner for runner in known if runner is not None]


def claim_messages(stages: Sequence[Stage], runner: Any) -> None:
    """Assigns the messages that stages exchange with other ranks to their runner.

    Waits for runners of earlier sessions that still tell other ranks of their end.

    Raises:
      tf.errors.FailedPreconditionError: Another open session exchanges messages of these names.
      tf.errors.DeadlineExceededError: Other ranks do not end an earlier session.
    """
    names = {name for stage in stages if stage.exchange for name in stage.exchange.messages}
    until = time.monotonic() + _PATIENCE_SECONDS
    for name in sorted(names):
        while _is_sent_by_another(name, runner):
            if time.monotonic() > until:
                raise tf.errors.DeadlineExceededError(None, None, _LATE.format(_last_part(name)))
            time.sleep(_POLL_SECONDS)
    with _lock:
        _senders.update({name: weakref.ref(runner) for name in names})


def _is_sent_by_another(name: str, runner: Any) -> bool:
    with _lock:
        reference = _senders.get(name)
    other = reference() if reference is not None else None
    if other is None or other is runner or not other.running:
        return False
    if not other.stopped:
        raise tf.errors.FailedPreconditionError(None, None, _IN_USE.format(_last_part(name)))
    return True


def _last_part(name: str) -> str:
    return name.rpartition(" ")[2].strip()


_IN_USE = (
    "another open session prefetches lookups through message '{}': two sessions on one graph can "
    "not both exchange rows with other ranks. Close the other one first, or build another graph."
)
_LATE = (
    "an earlier session has ended, but other ranks still prefetch for it through message '{}': all "
    "ranks must close their sessions"
)
