"""`make demo-horovod`: DLRM on two ranks, with tables copied to both, and divided between them.

Both ranks run on this machine, and train in all ways in turns (see `bench/collectives/modes.py`):
the same number of steps on the same rows. What they have learned is put together and scored by
TensorFlow alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Dict, Optional, Sequence

import tensorflow.compat.v1 as tf
import tqdm

from tools.bench.argument_types import positive
from tools.bench.collectives.figures import times_of
from tools.bench.collectives.launch import found_by_ranks
from tools.bench.collectives.modes import DEMONSTRATED
from tools.bench.collectives.settings import DLRM, RANKS, Setting
from tools.bench.collectives.weights import score_of_ranks
from tools.bench.training.command import exit_code_of
from tools.bench.workloads.scoring import Score
from tools.demo.ranks_report import Outcome, report

BUCKETS = 100000  # of each table
STEPS = 60


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the demo as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Train DLRM on ranks of Horovod, in all ways, in turns."
    )
    parser.add_argument("--ranks", type=positive, default=RANKS)
    parser.add_argument("--rounds", type=positive, default=5, help="turns of each")
    parser.add_argument("--steps", type=positive, default=STEPS, help="of each turn")
    parser.add_argument("--batch", type=positive, default=512, help="rows of a step on each rank")
    parser.add_argument("--buckets", type=positive, default=BUCKETS, help="rows of each table")
    parser.add_argument("--optimizer", default="adagrad")
    parser.add_argument("--quick", action="store_true", help="tiny layers and few rows")
    flags = parser.parse_args(arguments)
    tf.logging.set_verbosity(tf.logging.ERROR)
    setting = Setting(
        DLRM,
        DEMONSTRATED,
        flags.batch,
        flags.buckets,
        optimizer=flags.optimizer,
        rounds=flags.rounds,
        steps=flags.steps,
        with_floor=False,
        quick=flags.quick,
        ranks=flags.ranks,
    )
    return exit_code_of(lambda: print(report(_outcome(setting))))


def _outcome(setting: Setting) -> Outcome:
    model = setting.model  # Generates its rows here, for all ranks.
    begun = {"desc": "starting ranks", "unit": "turn", "disable": None}
    with tempfile.TemporaryDirectory() as name, tqdm.tqdm(**begun) as bar:
        folder = Path(name)

        def watch(mode: str, done: int, of: int) -> None:
            if not done:  # How long the ranks took to start says nothing about turns.
                bar.reset(of + len(setting.modes))
            bar.n = done
            bar.set_description(mode)

        found = found_by_ranks(setting, folder, watch, keep_weights=True)
        scores: Dict[str, Score] = {}
        for left, mode in enumerate(setting.modes):
            bar.n = bar.total - len(setting.modes) + left
            bar.set_description(mode + ", score")
            scores[mode] = score_of_ranks(model, folder, mode, setting.ranks)
        bar.n = bar.total
        bar.set_description("done")
    return Outcome(setting, found, times_of(found), scores)


if __name__ == "__main__":
    sys.exit(main())
