"""One data set, trained on in all ways, with all seeds, one after the other."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Dict, List

from tools.bench.accuracy.cases import CASES, THREADS, Case, NoRows, Way, plan
from tools.bench.accuracy.figures import Trained, absent_outcome, outcome_of
from tools.bench.records import Outcome
from tools.bench.training.job import Job, train
from tools.bench.training.sessions import Prefetching, SessionOptions

# Lookups that yield to main run later and read fresher rows: here rows are as old as they get. An
# epoch has a few hundred steps, so that more of them are sampled than usual.
_CONFIG = """
graph_options { optimizer_options { async_embedding_options {
  prefetch_priority: 0
  staleness_sample_steps: 8
} } }
"""


def trained(case: Case, way: Way, seed: int, config: Path, quick: bool = False) -> Trained:
    """What one training came to: the score after an epoch, and how old its rows were.

    Raises:
        NoRows: the rows are not there.
    """
    prefetching = Prefetching(THREADS, way.capacity, config=str(config))
    session = SessionOptions(way.mode, prefetching)
    outcome = train(Job(case.workload(seed, quick), case.learning(seed), session, steps=0))
    staleness = () if outcome.report is None else outcome.report.staleness
    return Trained(outcome.steps, outcome.score, tuple(staleness))


def _all_trained(case: Case, quick: bool) -> Dict[Way, List[Trained]]:
    ways, seeds = plan(quick)
    found: Dict[Way, List[Trained]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.pbtxt"
        config.write_text(_CONFIG, encoding="utf-8")
        for seed in seeds:
            for way in ways:
                found[way].append(trained(case, way, seed, config, quick))
    return found


def measure(name: str, quick: bool) -> Outcome:
    """Trains on a data set.

    Args:
        name: of `CASES`.
        quick: few ways, one seed.
    """
    try:
        return outcome_of(name, _all_trained(CASES[name], quick))
    except NoRows as error:
        return absent_outcome(name, error)
