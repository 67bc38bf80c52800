"""Training with exact rows against the same without, and against stock: `dlrm` and `wide`.

The scenarios and figures of async_training.py, for modes stock, fused, both and exact, which run
alternately; locally also with uniform ids and with very uneven ones. Besides, `ratio_to_fused`,
`share_of_async_gain` and `conflicting_rows_share` (exact_figures.py), and with a server
`calls_per_step` and `bytes_per_step` (traffic.py). The floor of both and exact is that of both.
"""

from __future__ import annotations

from tools.bench.records import Outcome
from tools.bench.training.contests import EXACT_CONTEST
from tools.bench.training.run_contest import run_contest


def run(quick: bool = False) -> Outcome:
    """Measures every scenario in a process of its own; `quick` tries one of them."""
    return run_contest(EXACT_CONTEST, quick)
