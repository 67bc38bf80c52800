"""The rows that are trained on, and the ways in which that is done."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, NamedTuple, Optional, Tuple

from tools.bench.training.sessions import BOTH, EXACT, STOCK
from tools.bench.workloads.dlrm.generated import generated_files
from tools.bench.workloads.dlrm.model import ModelOptions
from tools.bench.workloads.dlrm.workload import DataFiles, dlrm_workload
from tools.bench.workloads.measured import DATA, QUICK_ROWS
from tools.bench.workloads.movielens import Ratings, movielens_workload
from tools.bench.workloads.workload import Learning, Workload

SEEDS = (1, 2, 3)
THREADS = 1
MOVIELENS = Path("..") / "shared" / "data" / "ml-100k"  # beside the checkout
BATCH = 256
_ROWS = 200000
_HELD_OUT_ROWS = 40000
_SHUFFLED_ROWS = 20000
_DATA_SEED = 1
_SIZES = ModelOptions(buckets=20000, bottom=(64,), top=(64, 32))


class Way(NamedTuple):
    """How a model is trained.

    Attributes:
        mode: of `sessions.MODES`, or exact.
        capacity: batches held ready; None where nothing runs ahead.
    """

    mode: str
    capacity: Optional[int] = None


WAYS = (Way(STOCK), *(Way(BOTH, capacity) for capacity in (1, 2, 8, 32)), Way(EXACT, 8))
QUICK_WAYS = (Way(STOCK), Way(BOTH, 2), Way(EXACT, 2))


class NoRows(RuntimeError):
    """The rows are not there; the message says which."""


class Case(NamedTuple):
    """Rows, the model that learns from them, and how fast it learns.

    Attributes:
        workload: makes the model for one epoch over rows in an order that follows from a seed. With
            `quick` a tiny one. Raises NoRows.
        optimizer: of `workload.OPTIMIZERS`.
        learning_rate: its rate.
    """

    workload: Callable[[int, bool], Workload]
    optimizer: str
    learning_rate: float

    def learning(self, seed: int) -> Learning:
        """How it learns; the seed is that of the initial values."""
        return Learning(self.optimizer, self.learning_rate, seed)


def _movielens(seed: int, quick: bool) -> Workload:
    del quick  # an epoch is short enough
    if not MOVIELENS.is_dir():
        raise NoRows("no rows in {}: they may not be passed on".format(MOVIELENS))
    return movielens_workload(Ratings(MOVIELENS), epochs=1, seed=seed)


def _criteo(seed: int, quick: bool) -> Workload:
    rows, held_out = (QUICK_ROWS, QUICK_ROWS // 5) if quick else (_ROWS, _HELD_OUT_ROWS)
    training, scored = generated_files(DATA, rows, held_out, _DATA_SEED)
    files = DataFiles([str(training)], [str(scored)], 0)
    return dlrm_workload(files, _SIZES, BATCH, 1, min(rows, _SHUFFLED_ROWS), seed)


CASES: Dict[str, Case] = {
    "movielens": Case(_movielens, "adagrad", 0.03),
    "criteo": Case(_criteo, "adagrad", 0.03),
}


def plan(quick: bool) -> Tuple[Tuple[Way, ...], Tuple[int, ...]]:
    """The ways, and the seeds with which each of them is taken."""
    return (QUICK_WAYS, SEEDS[:1]) if quick else (WAYS, SEEDS)
