"""Runs every scenario of a contest in a process of its own; see training_contests.py."""

from __future__ import annotations

import subprocess
import sys

from tools.bench.process_outcome import outcome_of_process
from tools.bench.records import Absent, Outcome
from tools.bench.training.contests import SCENARIOS, Contest, Scenario

LIMIT_SECONDS = 600.0
_FIGURES = ("steps_per_s", "ratio_to_stock", "cpu_s_per_step", "overlap_efficiency")


def run_contest(contest: Contest, quick: bool = False) -> Outcome:
    """Measures every scenario; `quick` tries one."""
    outcome = Outcome(())
    scenarios = (contest.quick_scenario,) if quick else SCENARIOS
    for number, scenario in enumerate(scenarios, start=1):
        print("{}/{} {}".format(number, len(scenarios), scenario), file=sys.stderr, flush=True)
        outcome += _run_separately(contest, scenario, quick)
    if not outcome.records:
        raise RuntimeError("no scenario came to figures: {}".format(outcome.absent[0].reason))
    return outcome


def _run_separately(contest: Contest, scenario: Scenario, quick: bool) -> Outcome:
    flags = ["--contest", contest.name, "--workload", scenario.workload]
    if scenario.delay_ms is not None:
        flags += ["--delay-ms", str(scenario.delay_ms)]
    if quick:
        flags.append("--quick")
    try:
        return outcome_of_process("tools.bench.training.scenario", flags, LIMIT_SECONDS)
    except subprocess.SubprocessError as error:
        return _nothing(contest, scenario, str(error))


def _nothing(contest: Contest, scenario: Scenario, reason: str) -> Outcome:
    absent = tuple(
        Absent(figure, scenario.workload, contest.ahead, scenario.params, reason)
        for figure in _FIGURES
    )
    return Outcome((), absent)
