"""DLRM with dynamic tables and with static ones, both fused and prefetched, in turns."""

from __future__ import annotations

import contextlib
from typing import Callable, Dict, List

from tools.bench.cluster.loopback import start_cluster
from tools.bench.training.contenders import Contender, Setting, open_trainer
from tools.bench.training.sessions import BOTH
from tools.bench.turns import in_turns, ratios
from tools.bench.workloads.measured import dlrm, dlrm_with_dynamic_tables
from tools.bench.workloads.workload import Workload, training_graph

BATCH = 512
_WORKLOADS: Dict[str, Callable[[int, bool], Workload]] = {
    "static": dlrm,
    "dynamic": dlrm_with_dynamic_tables,
}


def ratio_to_static(steps: int, rounds: int, quick: bool = False) -> List[float]:
    """Training steps a second with dynamic tables over those with static ones, of each round.

    Args:
        steps: of a turn.
        rounds: measured rounds.
        quick: tiny sizes.
    """
    with contextlib.ExitStack() as stack:
        opened: Dict[str, Contender] = {}
        for name, workload in _WORKLOADS.items():
            setting = Setting(workload(BATCH, quick))
            cluster = stack.enter_context(start_cluster(0, 0.0))
            training = training_graph(setting.workload, setting.learning, cluster)
            opened[name] = stack.enter_context(open_trainer(setting, BOTH, training, cluster))

        def seconds(name: str) -> float:
            return opened[name].run(steps).seconds_per_step

        turns = {name: (lambda name=name: seconds(name)) for name in opened}
        measured = in_turns(turns, rounds)
    return ratios(measured["static"], measured["dynamic"])
