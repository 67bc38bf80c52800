"""Which runner fills which stage of a session, so that two hooks do not start its threads twice."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Dict, List, MutableMapping, Sequence

from graph_opt.runtime.stages import Stage

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
