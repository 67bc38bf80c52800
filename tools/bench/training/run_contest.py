"""Runs every scenario of a contest in a process of its own; see contests.py."""

from __future__ import annotations

import subprocess
import sys
from typing import List, Sequence

from tools.bench.process_outcome import outcome_of_process
from tools.bench.records import Absent, Outcome
from tools.bench.training.contests import Contest, Scenario

LIMIT_SECONDS = 600.0
_FIGURES = ("steps_per_s", "ratio_to_stock", "cpu_s_per_step", "overlap_efficiency")
_TRAFFIC = ("calls_per_step", "bytes_per_step")


def run_contest(contest: Contest, quick: bool = False) -> Outcome:
    """Measures every scenario; `quick` tries one."""
    outcome = Outcome(())
    scenarios = (contest.quick_scenario,) if quick else contest.scenarios
    for number, scenario in enumerate(scenarios, start=1):
        print("{}/{} {}".format(number, len(scenarios), scenario), file=sys.stderr, flush=True)
        outcome += _run_separately(contest, scenario, quick)
    if not outcome.records:
        raise RuntimeError("no scenario came to figures: {}".format(outcome.absent[0].reason))
    if contest.counts_traffic:
        for scenario in scenarios:
            if scenario.delay_ms == 0.0:
                outcome += _count_separately(contest, scenario, quick)
    return outcome


def _run_separately(contest: Contest, scenario: Scenario, quick: bool) -> Outcome:
    flags = ["--workers", str(scenario.workers)]
    if scenario.delay_ms is not None:
        flags += ["--delay-ms", str(scenario.delay_ms)]
    if scenario.zipf is not None:
        flags += ["--zipf", str(scenario.zipf)]
    try:
        return _outcome("scenario", contest, scenario, flags, quick)
    except subprocess.SubprocessError as error:
        return _nothing(contest, scenario, _FIGURES, str(error))


def _count_separately(contest: Contest, scenario: Scenario, quick: bool) -> Outcome:
    print("counting calls: {}".format(scenario), file=sys.stderr, flush=True)
    try:
        return _outcome("traffic", contest, scenario, ["--servers", str(scenario.servers)], quick)
    except subprocess.SubprocessError as error:
        return _nothing(contest, scenario, _TRAFFIC, str(error))


def _outcome(
    module: str, contest: Contest, scenario: Scenario, flags: List[str], quick: bool
) -> Outcome:
    flags = [*flags, "--contest", contest.name, "--workload", scenario.workload]
    if quick:
        flags.append("--quick")
    return outcome_of_process("tools.bench.training." + module, flags, LIMIT_SECONDS)


def _nothing(contest: Contest, scenario: Scenario, figures: Sequence[str], reason: str) -> Outcome:
    absent = tuple(
        Absent(figure, scenario.workload, contest.cut, scenario.params, reason)
        for figure in figures
    )
    return Outcome((), absent)
