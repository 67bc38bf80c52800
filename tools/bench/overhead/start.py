"""CPU time of a process until its second step has been trained.

CPU time and not seconds: others use the machine, too.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Dict, List, Optional

from tools.bench.records import Goal, Outcome, Record, from_runs
from tools.bench.training.sessions import ASYNC, BOTH, FUSED, MODES, STOCK
from tools.bench.turns import in_turns

WORKLOAD = "dlrm"
BATCH = 512
ROUNDS = 3
GOAL = Goal("<=", 1.0)
_LIMIT_SECONDS = 300.0


def measure(quick: bool) -> Outcome:
    """Measures each mode in processes of its own, in turns."""
    contestants = {mode: functools.partial(_cpu_seconds, mode, quick) for mode in MODES}
    rounds, warm_up = (1, 0) if quick else (ROUNDS, 1)
    runs = in_turns(contestants, rounds, warm_up, swaps=True)
    records = [_record("cpu_s_to_step_2", mode, runs[mode]) for mode in MODES]
    records += [_added(mode, runs) for mode in (ASYNC, FUSED, BOTH)]
    return Outcome(tuple(records))


def _added(mode: str, runs: Dict[str, List[float]]) -> Record:
    added = [ours - stock for ours, stock in zip(runs[mode], runs[STOCK])]
    return _record("added_cpu_s", mode, added, GOAL)


def _record(figure: str, mode: str, runs: List[float], goal: Optional[Goal] = None) -> Record:
    return from_runs(figure, WORKLOAD, mode, {"batch": BATCH}, runs, "s", goal)


def _cpu_seconds(mode: str, quick: bool) -> float:
    command = [sys.executable, "-m", "tools.bench.overhead.started", mode, str(int(quick))]
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ran = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, timeout=_LIMIT_SECONDS, check=True
    )
    return float(ran.stdout.split()[-1])
