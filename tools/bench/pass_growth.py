"""How long the passes take on graphs of 1,000 to 100,000 nodes, and how that grows.

Measured are async embedding alone, and group embedding with it, as most users run them.
`growth_exponent` is the slope of seconds over nodes on logarithmic scales (least squares over the
graphs of at least 10,000 nodes): 1 is linear time.
"""

from __future__ import annotations

import functools
import gc
import time
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import graph_opt
from tools.bench.copied_graph import Block, copied_graph, copies_for, lookup_block
from tools.bench.records import Goal, Outcome, Record, from_runs
from tools.bench.training.sessions import ASYNC, BOTH, session_config
from tools.bench.turns import exponent, in_turns

WORKLOAD = "generated"
MODES = (ASYNC, BOTH)
LEAST_FOR_GROWTH = 10000
GOAL_NODES = 100000
GOAL_SECONDS = Goal("<=", 3.0)
GOAL_EXPONENT = Goal("<=", 1.15)


class Effort(NamedTuple):
    """Sizes of the graphs in nodes, and rounds over them."""

    sizes: Tuple[int, ...]
    rounds: int


FULL = Effort((1000, 3000, 10000, 30000, 100000), rounds=3)
QUICK = Effort((1000, 2000), rounds=2)


def run(quick: bool = False) -> Outcome:
    """Measures the passes; `quick` only tries that it works."""
    effort = QUICK if quick else FULL
    block = lookup_block()
    graphs = {size: copied_graph(block, size) for size in effort.sizes}
    contestants = {
        _label(mode, size): functools.partial(_seconds, graph_def, session_config(mode), mode)
        for size, graph_def in graphs.items()
        for mode in MODES
    }
    runs = in_turns(contestants, effort.rounds)
    records: List[Record] = []
    for mode in MODES:
        seconds = [
            _record(size, mode, len(graph_def.node), block, runs[_label(mode, size)])
            for size, graph_def in graphs.items()
        ]
        records += [*seconds, _growth(mode, seconds)]
    return Outcome(tuple(records))


def _label(mode: str, size: int) -> str:
    return "{} {}".format(mode, size)


def _seconds(graph_def: Any, config: Any, mode: str) -> float:
    gc.collect()  # the garbage of the run before is not this one's time
    start = time.perf_counter()
    optimized = graph_opt.optimize_graph_def(graph_def, config)
    seconds = time.perf_counter() - start
    if not optimized.stages or bool(optimized.report.fused) != (mode == BOTH):
        raise RuntimeError("the passes did not do their work:\n{}".format(optimized.report))
    return seconds


def _record(size: int, mode: str, nodes: int, block: Block, runs: Sequence[float]) -> Record:
    params: Dict[str, Any] = {"nodes": nodes, "lookups": copies_for(block, size) * block.lookups}
    goal = GOAL_SECONDS if size == GOAL_NODES else None
    return from_runs("seconds", WORKLOAD, mode, params, runs, "s", goal)


def _growth(mode: str, seconds: Sequence[Record]) -> Record:
    largest = [record for record in seconds if record.params["nodes"] >= LEAST_FOR_GROWTH]
    chosen: List[Record] = largest if len(largest) > 1 else list(seconds)
    nodes = [record.params["nodes"] for record in chosen]
    params = {"least_nodes": min(nodes), "most_nodes": max(nodes)}
    runs = [exponent(nodes, each) for each in zip(*(record.runs for record in chosen))]
    return from_runs("growth_exponent", WORKLOAD, mode, params, runs, goal=GOAL_EXPONENT)
