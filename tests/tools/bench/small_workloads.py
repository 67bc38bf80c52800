"""The workloads that are measured, with few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Tuple

from tools.bench.workloads.dlrm import model as dlrm_model
from tools.bench.workloads.dlrm.generated import generated_files
from tools.bench.workloads.dlrm.workload import DataFiles, dlrm_workload
from tools.bench.workloads.wide import model as wide_model
from tools.bench.workloads.wide.data import DataOptions
from tools.bench.workloads.wide.workload import wide_workload
from tools.bench.workloads.workload import Workload

BATCH = 64


def dlrm(folder: Path, buckets: int, layers: Tuple[int, ...], resource: bool = False) -> Workload:
    """DLRM over 4,000 generated rows."""
    training, held_out = generated_files(folder, 4000, 100, seed=3)
    options = dlrm_model.ModelOptions(
        buckets=buckets, bottom=layers, top=layers, resource_variables=resource
    )
    return dlrm_workload(DataFiles([str(training)], [str(held_out)], 0), options, BATCH)


def wide(folder: Path, columns: int, resource: bool = False) -> Workload:
    """Multi-hot columns over as many."""
    data = DataOptions(columns=columns, buckets=500)
    model = wide_model.ModelOptions(resource_variables=resource)
    return wide_workload(folder, 4000, data, model, BATCH, seed=3)
