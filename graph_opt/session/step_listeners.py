"""Who is told of the steps that scripts run, by the names of their own graph."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

from graph_opt.compat.sessions import Elements

Listener = Callable[[Any, Elements, Elements, Elements, Sequence[Any]], None]
_listeners: List[Listener] = []


def tell_steps_to(listener: Listener) -> None:
    """From this call on, each step is told to a function before anything is done about it.

    It is called as `listener(session, fetches, targets, feeds, values)` in the thread that runs the
    step, and may itself run steps. A step that was compiled is told each time that it runs.
    """
    if listener not in _listeners:
        _listeners.append(listener)


def stop_telling(listener: Listener) -> None:
    """Undoes `tell_steps_to`."""
    if listener in _listeners:
        _listeners.remove(listener)


def tell_of_step(
    session: Any, fetches: Elements, targets: Elements, feeds: Elements, values: Sequence[Any]
) -> None:
    """Tells all listeners of a step."""
    for listener in _listeners:
        listener(session, fetches, targets, feeds, values)
