"""Steps starved at low priority while main waited do not run there again for a while."""

from __future__ import annotations

import os
import sys
import threading
from typing import Iterator, List

import pytest

from graph_opt.runtime.stage_worker import StageWorker, Yielding
from tests.runtime.sources import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority there")

STEPS = 30


@pytest.mark.parametrize("seconds_without_core, times_low", [(0.1, 1), (0.0, STEPS - 2)])
def test_a_starved_step_ends_yielding_for_a_while(
    seconds_without_core: float, times_low: int
) -> None:
    policies: List[int] = []
    late: List[bool] = []

    def steps() -> Iterator[None]:
        for _ in range(STEPS):
            yield
            policies.append(os.sched_getscheduler(0))
            late.append(False)
            sum(range(50000))
            if policies[-1] == os.SCHED_IDLE and seconds_without_core:
                threading.Event().wait(seconds_without_core)  # as if others used all cores
                late[-1] = True

    ended = threading.Event()
    worker = StageWorker("graph_opt/worker", steps(), ended.set, own_thread=False, daemon=True)
    worker.start(Yielding(20, lambda: not (late and late[-1])))
    assert ended.wait(30)
    wait_until(lambda: not worker.at_work, "end of its threads")
    assert len(policies) == STEPS
    assert policies.count(os.SCHED_IDLE) == times_low
