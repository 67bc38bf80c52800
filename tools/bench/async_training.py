"""Training with prefetched lookups against the stock session: `dlrm` and `wide`.

Each of them in one process, and with a parameter server in a process of its own, 0, 1 and 3 ms
away (each way). Figures: `steps_per_s`, `ratio_to_stock`, `cpu_s_per_step` (worker and parameter
server), `overlap_efficiency` and the parts it is computed from (see overlap.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from examples.sessions import ASYNC
from tools.bench.async_figures import Scenario
from tools.bench.records import Absent, Outcome

DELAYS_MS = (None, 0.0, 1.0, 3.0)
SCENARIOS = tuple(
    Scenario(workload, delay_ms) for workload in ("dlrm", "wide") for delay_ms in DELAYS_MS
)
QUICK_SCENARIOS = (Scenario("dlrm"), Scenario("wide", 1.0))
LIMIT_SECONDS = 300.0
_FIGURES = ("steps_per_s", "ratio_to_stock", "cpu_s_per_step", "overlap_efficiency")


def run(quick: bool = False) -> Outcome:
    """Measures every scenario in a process of its own; `quick` tries two of them."""
    outcome = Outcome(())
    scenarios = QUICK_SCENARIOS if quick else SCENARIOS
    for number, scenario in enumerate(scenarios, start=1):
        print("{}/{} {}".format(number, len(scenarios), scenario), file=sys.stderr, flush=True)
        outcome += _run_apart(scenario, quick)
    if not outcome.records:
        raise RuntimeError("no scenario came to figures: {}".format(outcome.absent[0].reason))
    return outcome


def _run_apart(scenario: Scenario, quick: bool) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "outcome.json"
        command = [sys.executable, "-m", "tools.bench.async_scenario"]
        command += ["--workload", scenario.workload, "--output", str(output)]
        if scenario.delay_ms is not None:
            command += ["--delay-ms", str(scenario.delay_ms)]
        if quick:
            command.append("--quick")
        try:
            subprocess.run(command, timeout=LIMIT_SECONDS, check=True)
        except subprocess.SubprocessError as error:
            return _nothing(scenario, str(error))
        return Outcome.from_dict(json.loads(output.read_text(encoding="utf-8")))


def _nothing(scenario: Scenario, reason: str) -> Outcome:
    absent = tuple(
        Absent(figure, scenario.workload, ASYNC, scenario.params, reason) for figure in _FIGURES
    )
    return Outcome((), absent)
