"""DLRM with dynamic tables and with static ones, both fused and prefetched, in turns."""

from __future__ import annotations

import contextlib
import functools
from typing import Callable, Dict, List

from tools.bench.training.contenders import Setting, open_alone
from tools.bench.training.sessions import BOTH
from tools.bench.turns import in_turns, ratios
from tools.bench.workloads.measured import dlrm, dlrm_with_dynamic_tables
from tools.bench.workloads.workload import Workload

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
        contestants = {
            name: functools.partial(
                stack.enter_context(open_alone(Setting(workload(BATCH, quick)), BOTH)).run, steps
            )
            for name, workload in _WORKLOADS.items()
        }
        turns = in_turns(contestants, rounds)
    static, dynamic = ([turn.seconds_per_step for turn in turns[name]] for name in _WORKLOADS)
    return ratios(static, dynamic)
