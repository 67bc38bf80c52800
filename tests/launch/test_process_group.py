"""What a group of processes waits for."""

from __future__ import annotations

import queue
import signal

import pytest

from graph_opt.launch.process_group import ProcessGroup, _Signal

TIMES = 20000


def test_an_order_that_is_due_is_never_waited_for() -> None:
    """Python 3.7 to 3.10 do, where a microsecond passes in a get whose timeout is 0."""
    group = ProcessGroup([])
    for _ in range(TIMES):
        event = _Signal(signal.SIGTERM)
        group._events.put(event)
        assert group._next_event() is event
        group.order((0.0, signal.SIGTERM))
        with pytest.raises(queue.Empty):
            group._next_event()
