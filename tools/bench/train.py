"""Training with fused lookups, prefetched or not, against the stock session: `dlrm` and `wide`.

The scenarios and figures of async_training.py, for modes stock, async, fused and both, which run
alternately.
`overlap_efficiency` and the floor are those of mode both, whose lookups are fused and run ahead,
against mode fused.
"""

from __future__ import annotations

from tools.bench.records import Outcome
from tools.bench.training.contests import TRAIN_CONTEST
from tools.bench.training.run_contest import run_contest


def run(quick: bool = False) -> Outcome:
    """Measures every scenario in a process of its own; `quick` tries one of them."""
    return run_contest(TRAIN_CONTEST, quick)
