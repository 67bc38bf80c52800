"""What it costs to tell how old the rows are that lookups ahead have read, and to limit that.

`dlrm` and `wide` in one process, in turns without samples, with one step sampled in 64 (the
default), and with each step sampled. `sampled_share` is what a sample takes, spread over 64 steps,
in steps: a difference of many samples, and so finer than `ratio_to_unsampled` of the default.

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
from tools.bench.workloads.measured import WORKLOADS
from tools.bench.workloads.workload import Learning, training_graph

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


# The first sample is compiled in the step that it is taken of: a pause of up to two seconds, once.
FULL = Effort(512, warm_up=DEFAULT + 16, rounds=5, seconds=1.0)
QUICK = Effort(32, warm_up=2, rounds=2, seconds=0.02)


def run(quick: bool = False) -> Outcome:
    """Measures both workloads, fused and not; `quick` only tries that it works."""
    records: List[Record] = []
    for workload in ("wide",) if quick else ("dlrm", "wide"):
        for mode in (BOTH,) if quick else (ASYNC, BOTH):
            records += _measured(workload, mode, QUICK if quick else FULL, quick)
        records += _limited(workload, QUICK if quick else FULL, quick)
    return Outcome(tuple(records))


def _measured(workload: str, mode: str, effort: Effort, quick: bool) -> List[Record]:
    with contextlib.ExitStack() as stack:
        steps = {
            every: stack.enter_context(_step(workload, _sampling(mode, every), effort.batch, quick))
            for every in (NEVER, DEFAULT, ALWAYS)
        }
        runs = _seconds(steps, effort)
    never, default, always = (runs[str(every)] for every in (NEVER, DEFAULT, ALWAYS))
    params: Dict[str, Any] = {"batch": effort.batch, "capacity": 2}
    share = [(one - 1.0) / DEFAULT for one in ratios(always, never)]
    return [
        from_runs("seconds_per_step", workload, mode, params, never, "s"),
        from_runs("ratio_to_unsampled", workload, mode, params, ratios(default, never)),
        from_runs("sampled_share", workload, mode, params, share, goal=MOST_SHARE),
    ]


def _limited(workload: str, effort: Effort, quick: bool) -> List[Record]:
    limits = (None, *LIMITS)
    with contextlib.ExitStack() as stack:
        steps = {
            limit: stack.enter_context(_step(workload, _limit(limit), effort.batch, quick))
            for limit in limits
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
def _step(
    workload: str, config: Any, batch: int, quick: bool
) -> Iterator[Tuple[Callable[[], object], Any]]:
    import graph_opt

    training = training_graph(WORKLOADS[workload](batch, quick), Learning(), Cluster())
    with training.graph.as_default():
        session = graph_opt.train.MonitoredTrainingSession(config=config)
    try:
        yield (lambda: session.run(training.train_op)), session
    finally:
        with training.graph.as_default():
            session.close()
