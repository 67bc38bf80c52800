"""What it costs to tell how old the rows are that lookups ahead have read, and to limit that.

`dlrm` and `wide` in one process, in turns without samples and with each step sampled.
`sampled_share` is what a sample takes, spread over 64 steps (the default), in steps.

Then, with eight batches waiting and nothing sampled, without a limit and with a `staleness_limit`
of 0, 1 and 4 updates for all tables: `ratio_to_unlimited`, and `conflicting_rows_share`, the ids
whose rows had missed more than that. With fused lookups alone: others have no limit.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from tools.bench.cluster.loopback import Cluster
from tools.bench.records import Goal, Outcome, Record, from_runs
from tools.bench.training.sessions import ASYNC, BOTH, session_config
from tools.bench.turns import in_turns, ratios, seconds_per_call
from tools.bench.workloads.graph_copies import GraphCopies
from tools.bench.workloads.measured import WORKLOADS
from tools.bench.workloads.workload import Learning, TrainingGraph, training_graph

NEVER, DEFAULT, ALWAYS = 0, 64, 1
CAPACITY, LIMITS = 8, (0, 1, 4)
MOST_SHARE, MOST_LIMITED = Goal("<=", 0.01), Goal("<=", 1.05)
_BURN_IN = 8


class Effort(NamedTuple):
    """Rows a step, untimed steps before all turns, rounds, and seconds of each turn."""

    batch: int
    warm_up: int
    rounds: int
    seconds: float


# By then, tables that gain nothing ahead of the step have been left to it.
FULL = Effort(512, warm_up=80, rounds=5, seconds=1.0)
QUICK = Effort(32, warm_up=2, rounds=2, seconds=0.02)


def run(quick: bool = False) -> Outcome:
    """Measures both workloads, fused and not; `quick` only tries that it works."""
    records: List[Record] = []
    effort = QUICK if quick else FULL
    for workload in ("wide",) if quick else ("dlrm", "wide"):
        model = WORKLOADS[workload](effort.batch, quick)
        copies = GraphCopies(training_graph(model, Learning(), Cluster()))
        for mode in (BOTH,) if quick else (ASYNC, BOTH):
            records += _measured(workload, mode, effort, copies)
        records += _limited(workload, effort, copies)
    return Outcome(tuple(records))


def _measured(workload: str, mode: str, effort: Effort, copies: GraphCopies) -> List[Record]:
    with contextlib.ExitStack() as stack:
        steps = {
            every: stack.enter_context(_step(copies.copy(), _sampling(mode, every)))
            for every in (NEVER, ALWAYS)
        }
        runs = _seconds(steps, effort)
    never, always = (runs[str(every)] for every in (NEVER, ALWAYS))
    params: Dict[str, Any] = {"batch": effort.batch, "capacity": 2}
    share = [(one - 1.0) / DEFAULT for one in ratios(always, never)]
    return [
        from_runs("seconds_per_step", workload, mode, params, never, "s"),
        from_runs("sampled_share", workload, mode, params, share, goal=MOST_SHARE),
    ]


def _limited(workload: str, effort: Effort, copies: GraphCopies) -> List[Record]:
    limits = (None, *LIMITS)
    with contextlib.ExitStack() as stack:
        steps = {
            limit: stack.enter_context(_step(copies.copy(), _limit(limit))) for limit in limits
        }
        runs = _seconds(steps, effort)
        shares = {limit: _share_refreshed(steps[limit][1]) for limit in LIMITS}
    records: List[Record] = []
    for limit in LIMITS:
        params = {"batch": effort.batch, "capacity": CAPACITY, "limit": limit}
        of_limit = workload, BOTH, params
        ratio = ratios(runs[str(limit)], runs[str(None)])
        records.append(from_runs("ratio_to_unlimited", *of_limit, ratio, goal=MOST_LIMITED))
        records += [
            from_runs("conflicting_rows_share", *of_limit, [share]) for share in shares[limit]
        ]
    return records


def _seconds(
    steps: Mapping[Any, Tuple[Callable[[], object], Any]], effort: Effort
) -> Dict[str, List[float]]:
    for step, _ in steps.values():
        seconds_per_call(step, 0.0, effort.warm_up)
    contestants = {
        str(label): functools.partial(seconds_per_call, step, effort.seconds, _BURN_IN)
        for label, (step, _) in steps.items()
    }
    return in_turns(contestants, effort.rounds)


def _share_refreshed(session: Any) -> List[float]:
    """Of the ids that were looked up ahead, those whose rows were read again; none if none were."""
    import graph_opt

    tables = graph_opt.refresh_metrics(session).values()
    ids = sum(table["ids"] for table in tables)
    return [sum(table["ids_changed"] for table in tables) / ids] if ids else []


def _sampling(mode: str, every: int) -> Any:
    config = session_config(mode)
    options = config.graph_options.optimizer_options.async_embedding_options
    options.staleness_sample_steps = every
    return config


def _limit(updates: Optional[int]) -> Any:
    config = _sampling(BOTH, NEVER)
    options = config.graph_options.optimizer_options.async_embedding_options
    options.capacity = CAPACITY
    if updates is not None:
        options.staleness_limit.add(table=".*", updates=updates)
    return config


@contextlib.contextmanager
def _step(training: TrainingGraph, config: Any) -> Iterator[Tuple[Callable[[], object], Any]]:
    import graph_opt

    with training.graph.as_default():
        session = graph_opt.train.MonitoredTrainingSession(config=config)
    try:
        yield (lambda: session.run(training.train_op)), session
    finally:
        with training.graph.as_default():
            session.close()
