"""What it costs to tell how old the rows are that lookups ahead of time have read.

`dlrm` and `wide` in one process, in turns without samples, with one step sampled in 64 (the
default), and with each step sampled. `sampled_share` is what a sample takes, spread over 64 steps,
in steps: a difference of many samples, and so finer than `ratio_to_unsampled` of the default.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Dict, Iterator, List, NamedTuple

from tools.bench.cluster.loopback import Cluster
from tools.bench.records import Goal, Outcome, Record, from_runs
from tools.bench.training.sessions import ASYNC, BOTH, session_config
from tools.bench.turns import in_turns, ratios, seconds_per_call
from tools.bench.workloads.measured import WORKLOADS
from tools.bench.workloads.workload import Learning, training_graph

NEVER, DEFAULT, ALWAYS = 0, 64, 1
MOST_SHARE = Goal("<=", 0.01)
_BURN_IN = 8


class Effort(NamedTuple):
    """Rows a step, rounds, and seconds of each turn."""

    batch: int
    rounds: int
    seconds: float


FULL = Effort(512, rounds=7, seconds=2.0)
QUICK = Effort(32, rounds=2, seconds=0.02)


def run(quick: bool = False) -> Outcome:
    """Measures both workloads, fused and not; `quick` only tries that it works."""
    records: List[Record] = []
    for workload in ("wide",) if quick else ("dlrm", "wide"):
        for mode in (BOTH,) if quick else (ASYNC, BOTH):
            records += _measured(workload, mode, QUICK if quick else FULL, quick)
    return Outcome(tuple(records))


def _measured(workload: str, mode: str, effort: Effort, quick: bool) -> List[Record]:
    with contextlib.ExitStack() as stack:
        steps = {
            every: stack.enter_context(_step(workload, mode, every, effort.batch, quick))
            for every in (NEVER, DEFAULT, ALWAYS)
        }
        contestants = {
            str(every): functools.partial(seconds_per_call, step, effort.seconds, _BURN_IN)
            for every, step in steps.items()
        }
        runs = in_turns(contestants, effort.rounds)
    never, default, always = (runs[str(every)] for every in (NEVER, DEFAULT, ALWAYS))
    params: Dict[str, Any] = {"batch": effort.batch, "capacity": 2}
    share = [(one - 1.0) / DEFAULT for one in ratios(always, never)]
    return [
        from_runs("seconds_per_step", workload, mode, params, never, "s"),
        from_runs("ratio_to_unsampled", workload, mode, params, ratios(default, never)),
        from_runs("sampled_share", workload, mode, params, share, goal=MOST_SHARE),
    ]


@contextlib.contextmanager
def _step(
    workload: str, mode: str, every: int, batch: int, quick: bool
) -> Iterator[Callable[[], object]]:
    import graph_opt

    training = training_graph(WORKLOADS[workload](batch, quick), Learning(), Cluster())
    config = session_config(mode)
    options = config.graph_options.optimizer_options.async_embedding_options
    options.staleness_sample_steps = every
    with training.graph.as_default():
        session = graph_opt.train.MonitoredTrainingSession(config=config)
    try:
        yield lambda: session.run(training.train_op)
    finally:
        with training.graph.as_default():
            session.close()
