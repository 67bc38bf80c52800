"""What exact rows cost: figures of mode `exact` beside those of modes `fused` and `both`.

ratio_to_fused          steps a second, over those of the same lookups in main
share_of_async_gain     (exact - fused) / (both - fused), in steps a second
conflicting_rows_share  ids whose row an update wrote after it was read ahead, of all ids
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from tools.bench.records import Absent, Goal, Outcome, Record, from_runs
from tools.bench.training.contenders import Contender, Turns
from tools.bench.training.contests import NEVER_BELOW, Scenario
from tools.bench.training.sessions import BOTH, EXACT, FUSED
from tools.bench.turns import Schedule, ratios

_MOST_OF_THE_GAIN = Goal(">=", 0.8)
_GOALS = {1.0: _MOST_OF_THE_GAIN, 3.0: _MOST_OF_THE_GAIN}  # by milliseconds to a server
_LEAST_GAIN = 0.03  # of fused: a share of less than this would be one of noise
_COUNTS = "ids_changed"  # an output of ops that refresh rows: all ids, and those that changed
_TRIED_AGAIN = 256  # steps: in every 128 all tables are looked up ahead once, and are counted


def exact_outcome(scenario: Scenario, turns: Turns) -> Outcome:
    """The figures that follow from turns of the three modes, as many of each."""
    of_exact = (scenario.workload, EXACT, scenario.params)
    fused, both, exact = (
        [scenario.workers / turn.seconds_per_step for turn in turns[mode]]
        for mode in (FUSED, BOTH, EXACT)
    )
    beside_fused = from_runs("ratio_to_fused", *of_exact, ratios(exact, fused), goal=NEVER_BELOW)
    outcome = Outcome((beside_fused,))
    gain = statistics.median(both) / statistics.median(fused) - 1.0
    if gain < _LEAST_GAIN:
        reason = "both is {:.2f} times as fast as fused: too little to tell a share of it"
        absent = Absent("share_of_async_gain", *of_exact, reason.format(1.0 + gain))
        return outcome + Outcome((), (absent,))
    # The gain of a single round may be small by chance, and its share would then be any number.
    typical = gain * statistics.median(fused)
    shares = [(ours - theirs) / typical for ours, theirs in zip(exact, fused)]
    goal = _GOALS.get(scenario.delay_ms or 0.0)
    return outcome + Outcome((from_runs("share_of_async_gain", *of_exact, shares, goal=goal),))


def conflicting_rows_share(exact: Contender, scenario: Scenario, schedule: Schedule) -> Outcome:
    """Counts, in a turn of its own, the ids whose rows had to be refreshed.

    The steps' own ops count; so a step's counts are those of the rows that it computed with.

    Args:
        exact: a trainer of mode `exact`.
        scenario: what it trains.
        schedule: the length of a turn.
    """
    assert exact.training is not None
    of_exact = (scenario.workload, EXACT, scenario.params)
    graph = exact.training.graph
    counts = [each.outputs[-1] for each in graph.get_operations() if _counts_ids(each)]
    if not counts:
        reason = "no lookup ran ahead with exact rows"
        return Outcome((), (Absent("conflicting_rows_share", *of_exact, reason),))
    fetches = [exact.training.train_op, counts]
    found = []
    for step in range(schedule.settle + max(schedule.steps, _TRIED_AGAIN)):
        _, of_ops = exact.session.run(fetches)
        if step >= schedule.settle:
            found.append(np.sum(of_ops, axis=0))
    everything, changed = np.sum(found, axis=0)
    if not everything:
        reason = "no rows were looked up ahead"
        return Outcome((), (Absent("conflicting_rows_share", *of_exact, reason),))
    share = float(changed) / float(everything)
    return Outcome((Record("conflicting_rows_share", *of_exact, share, runs=(share,)),))


def _counts_ids(operation: Any) -> bool:
    outputs = operation.op_def.output_arg
    return bool(outputs) and outputs[-1].name == _COUNTS
