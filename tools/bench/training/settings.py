"""What a scenario stands for: its model at the size that is measured, and where it is trained."""

from __future__ import annotations

from tools.bench.training.contenders import Setting
from tools.bench.training.contests import Scenario
from tools.bench.training.sessions import Prefetching, SessionOptions
from tools.bench.workloads.measured import WORKLOADS


def setting_of(scenario: Scenario, quick: bool = False) -> Setting:
    """The setting of a scenario; `quick` makes the model tiny."""
    return Setting(
        WORKLOADS[scenario.workload](scenario.batch, quick, scenario.zipf),
        session=SessionOptions(prefetching=Prefetching(scenario.threads, scenario.capacity)),
        servers=scenario.servers,
        delay_ms=scenario.delay_ms or 0.0,
    )
