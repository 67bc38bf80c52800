"""Adam: TensorFlow's, which moves whole tables in each step, against graph_opt's, of rows alone.

    stock      TensorFlow alone
    deferred   its numbers at the cost of the rows that a batch reads
    lazy       only the rows that a batch reads ever move, which is another optimizer

`dlrm` and `wide` with three sizes of tables, in one process and with a parameter server. Figures:
`steps_per_s`, `ratio_to_stock`, `ratio_to_lazy`, and `growth_exponent`, the power of a table's rows
with which a step's time grows. Beside each stands what memory alone would allow (see traffic.py).
"""

from __future__ import annotations

import sys

from tools.bench.adam.figures import growth
from tools.bench.adam.scenario import measure
from tools.bench.adam.scenarios import QUICK_SCENARIOS, SCENARIOS, Scenario
from tools.bench.machine import available_bytes
from tools.bench.process_outcome import PartFailed, nothing_of, outcome_of_process, with_figures
from tools.bench.records import Outcome
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
    return with_figures(outcome) + growth(scenarios, outcome)


def _separately(scenario: Scenario) -> Outcome:
    where = (scenario.workload, DEFERRED, scenario.params)
    if scenario.bytes_needed > available_bytes():
        needs = "needs {:.0f} GiB of memory, of which {:.0f} are free".format(
            scenario.bytes_needed / _BYTES_PER_GIB, available_bytes() / _BYTES_PER_GIB
        )
        return nothing_of(where, _FIGURES, needs)
    try:
        return outcome_of_process(measure, [scenario], LIMIT_SECONDS)
    except PartFailed as error:
        return nothing_of(where, _FIGURES, error)
