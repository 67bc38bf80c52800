"""Adam: TensorFlow's, which moves whole tables in each step, against graph_opt's, of rows alone.

    stock      TensorFlow alone
    deferred   its numbers at the cost of the rows that a batch reads
    lazy       only the rows that a batch reads ever move, which is another optimizer

`dlrm` and `wide` with three sizes of tables, in one process and with a parameter server. Figures:
`steps_per_s`, `ratio_to_stock`, `ratio_to_lazy`, and `growth_exponent`, the power of a table's rows
with which a step's time grows. Beside each stands what memory alone would allow (see traffic.py).
"""

from __future__ import annotations

import subprocess
import sys

from tools.bench.adam.figures import growth
from tools.bench.adam.scenario import measure
from tools.bench.adam.scenarios import QUICK_SCENARIOS, SCENARIOS, Scenario
from tools.bench.machine import available_bytes
from tools.bench.process_outcome import outcome_of_process
from tools.bench.records import Absent, Outcome
from tools.bench.training.sessions import DEFERRED

LIMIT_SECONDS = 300.0
_FIGURES = ("steps_per_s", "ratio_to_stock", "ratio_to_lazy")
_BYTES_PER_GIB = 1 << 30


def run(quick: bool = False) -> Outcome:
    """Measures every scenario in a process of its own; `quick` tries two small ones in this one."""
    scenarios = QUICK_SCENARIOS if quick else SCENARIOS
    outcome = Outcome(())
    for number, scenario in enumerate(scenarios, start=1):
        print("{}/{} {}".format(number, len(scenarios), scenario), file=sys.stderr, flush=True)
        outcome += measure(scenario, quick) if quick else _separately(scenario)
    if not outcome.records:
        raise RuntimeError("no scenario came to figures: {}".format(outcome.absent[0].reason))
    return outcome + growth(scenarios, outcome)


def _separately(scenario: Scenario) -> Outcome:
    if scenario.bytes_needed > available_bytes():
        return _nothing(
            scenario,
            "needs {:.0f} GiB of memory, of which {:.0f} are free".format(
                scenario.bytes_needed / _BYTES_PER_GIB, available_bytes() / _BYTES_PER_GIB
            ),
        )
    flags = ["--workload", scenario.workload, "--rows", str(scenario.tables.rows)]
    if scenario.delay_ms is not None:
        flags += ["--delay-ms", str(scenario.delay_ms)]
    try:
        return outcome_of_process("tools.bench.adam.scenario", flags, LIMIT_SECONDS)
    except subprocess.SubprocessError as error:
        return _nothing(scenario, str(error))


def _nothing(scenario: Scenario, reason: str) -> Outcome:
    place = (scenario.workload, DEFERRED, scenario.params, reason)
    return Outcome((), tuple(Absent(figure, *place) for figure in _FIGURES))
