"""The models at the sizes that are measured, and tiny ones to try the mechanics."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, NamedTuple, Optional

from tools.bench.workloads.dlrm import generated as dlrm_data
from tools.bench.workloads.dlrm import model as dlrm_model
from tools.bench.workloads.dlrm.workload import DataFiles, dlrm_workload
from tools.bench.workloads.wide import model as wide_model
from tools.bench.workloads.wide.data import ZIPF_EXPONENT, DataOptions
from tools.bench.workloads.wide.workload import wide_workload
from tools.bench.workloads.workload import Workload

DATA = Path("build/data")
SEED = 1
DLRM_ROWS = 400000
WIDE_ROWS = 40960
QUICK_ROWS = 2000
WIDE_WIDTH = wide_model.ModelOptions().dimension


class Tables(NamedTuple):
    """Number of embedding tables, rows of each, and columns of each."""

    number: int
    rows: int
    width: int

    @property
    def bytes(self) -> int:
        """Bytes of all tables, which are float32."""
        return 4 * self.number * self.rows * self.width


def dlrm(batch: int, quick: bool = False, zipf: Optional[float] = None) -> Workload:
    """DLRM over generated rows in Criteo's format: bound by its dense layers."""
    rows = 1000 if quick else dlrm_model.ModelOptions().buckets
    return dlrm_with_rows(rows, batch, quick, zipf=zipf)


def dlrm_with_rows(
    rows: int,
    batch: int,
    quick: bool = False,
    dynamic: bool = False,
    zipf: Optional[float] = None,
) -> Workload:
    """DLRM with so many rows in each of its tables; `zipf` as in `dlrm.generated`."""
    generated = QUICK_ROWS if quick else DLRM_ROWS
    skew = dlrm_data.ZIPF_EXPONENT if zipf is None else zipf
    training, held_out = dlrm_data.generated_files(DATA, generated, generated // 10, SEED, skew)
    sizes = dlrm_model.ModelOptions(buckets=rows, dynamic=dynamic)
    if quick:
        sizes = sizes._replace(bottom=(16,), top=(16,))
    return dlrm_workload(DataFiles([str(training)], [str(held_out)], 0), sizes, batch, seed=SEED)


def dlrm_with_dynamic_tables(batch: int, quick: bool = False) -> Workload:
    """DLRM with a row for each id in place of its buckets."""
    return dlrm_with_rows(dlrm_model.ModelOptions().buckets, batch, quick, dynamic=True)


def wide(batch: int, quick: bool = False, zipf: Optional[float] = None) -> Workload:
    """Many multi-hot columns under a small network: bound by its lookups."""
    data = DataOptions()
    tables = Tables(data.columns, data.buckets, WIDE_WIDTH)
    skew = ZIPF_EXPONENT if zipf is None else zipf
    return wide_with_tables(Tables(4, 1000, WIDE_WIDTH) if quick else tables, batch, quick, skew)


def wide_with_tables(
    tables: Tables, batch: int, quick: bool = False, zipf: float = ZIPF_EXPONENT
) -> Workload:
    """Such a model with so many columns, each with a table of so many rows.

    Args:
      tables: the columns' tables.
      batch: rows a step.
      quick: few rows, with few ids.
      zipf: how uneven ids are.
    """
    most_ids = 2 if quick else DataOptions().most_ids
    data = DataOptions(tables.number, most_ids, tables.rows, zipf)
    generated = QUICK_ROWS if quick else WIDE_ROWS
    layers = wide_model.ModelOptions(dimension=tables.width)
    return wide_workload(DATA, generated, data, layers, batch, SEED)


WORKLOADS: Dict[str, Callable[..., Workload]] = {"dlrm": dlrm, "wide": wide}
