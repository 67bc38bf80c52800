"""One data set, trained on in all ways, with all seeds, one after the other.

python -m tools.bench.accuracy.training --case movielens --output FILE
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from tools.bench.accuracy.cases import CASES, THREADS, Case, NoRows, Way, plan
from tools.bench.accuracy.figures import Trained, absent_outcome, outcome_of
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


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Trains on the data set that the flags name and writes the outcome as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=sorted(CASES), required=True)
    parser.add_argument("--quick", action="store_true", help="few ways, one seed")
    parser.add_argument("--output", type=Path, required=True, help="file to write")
    options = parser.parse_args(arguments)
    tf.logging.set_verbosity(tf.logging.ERROR)  # every TF1 name is deprecated: that is known here
    tf.disable_v2_behavior()
    try:
        outcome = outcome_of(options.case, _all_trained(CASES[options.case], options.quick))
    except NoRows as error:
        outcome = absent_outcome(options.case, str(error))
    options.output.write_text(json.dumps(outcome.to_dict()), encoding="utf-8")


if __name__ == "__main__":
    main()
