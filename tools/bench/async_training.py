"""Training with prefetched lookups against the stock session: `dlrm` and `wide`.

Each of them in one process, and with a parameter server in a process of its own, 0, 1 and 3 ms
away (each way). Figures: `steps_per_s`, `ratio_to_stock`, `cpu_s_per_step` (worker and parameter
server), `server_cpu_s_per_step`, `proxy_cpu_s_per_step`, `overlap_efficiency` and the parts it is
computed from (see overlap.py).
"""

from __future__ import annotations

from tools.bench.records import Outcome
from tools.bench.training.contests import ASYNC_CONTEST
from tools.bench.training.run_contest import run_contest


def run(quick: bool = False) -> Outcome:
    """Measures every scenario in a process of its own; `quick` tries one of them."""
    return run_contest(ASYNC_CONTEST, quick)
