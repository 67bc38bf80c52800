"""The models at the sizes that are measured, and tiny ones to try the mechanics."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict

from tools.bench.workloads.dlrm import model as dlrm_model
from tools.bench.workloads.dlrm.generated import generated_files
from tools.bench.workloads.dlrm.workload import DataFiles, dlrm_workload
from tools.bench.workloads.wide import model as wide_model
from tools.bench.workloads.wide.data import DataOptions
from tools.bench.workloads.wide.workload import wide_workload
from tools.bench.workloads.workload import Workload

DATA = Path("build/data")
SEED = 1
DLRM_ROWS = 400000
WIDE_ROWS = 40960
QUICK_ROWS = 2000


def dlrm(batch: int, quick: bool = False) -> Workload:
    """DLRM over generated rows in Criteo's format: bound by its dense layers."""
    rows = QUICK_ROWS if quick else DLRM_ROWS
    training, held_out = generated_files(DATA, rows, rows // 10, SEED)
    sizes = dlrm_model.ModelOptions()
    if quick:
        sizes = sizes._replace(buckets=1000, bottom=(16,), top=(16,))
    return dlrm_workload(DataFiles([str(training)], [str(held_out)], 0), sizes, batch, seed=SEED)


def wide(batch: int, quick: bool = False) -> Workload:
    """Many multi-hot columns under a small network: bound by its lookups."""
    data = DataOptions(columns=4, most_ids=2, buckets=1000) if quick else DataOptions()
    rows = QUICK_ROWS if quick else WIDE_ROWS
    return wide_workload(DATA, rows, data, wide_model.ModelOptions(), batch, SEED)


WORKLOADS: Dict[str, Callable[[int, bool], Workload]] = {"dlrm": dlrm, "wide": wide}
