"""Training on parameter servers in every mode: `dlrm` and `wide`, 1 + 1 and 2 + 2 tasks.

The scenarios and figures of async_training.py, for modes stock, async, fused and both, which run
alternately, with servers 0, 1 and 3 ms away (each way). With two workers, the second is a process
that trains when the first one does; `steps_per_s` is that of both. Besides, for each number of
servers, `calls_per_step` and `bytes_per_step` of a worker (traffic.py).
"""

from __future__ import annotations

from tools.bench.records import Outcome
from tools.bench.training.contests import CLUSTER_CONTEST
from tools.bench.training.run_contest import run_contest


def run(quick: bool = False) -> Outcome:
    """Measures every scenario in a process of its own; `quick` tries one of them."""
    return run_contest(CLUSTER_CONTEST, quick)
