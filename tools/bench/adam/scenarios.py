"""Where Adam is measured, and what it should reach.

A session with Adam holds each table three times (weights, m, v), and three sessions are open side
by side. At a million rows, `wide` with its 200 columns would take 58 GB, so it has 40 of them here,
at all sizes; `dlrm` has all its 26 tables. Both have rows as wide as in the other benchmarks.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

from tools.bench.records import Goal
from tools.bench.training.sessions import ADAM_MODES
from tools.bench.workloads.dlrm.model import ModelOptions
from tools.bench.workloads.dlrm.schema import CATEGORICALS
from tools.bench.workloads.measured import (
    WIDE_WIDTH,
    Tables,
    dlrm_with_rows,
    wide_with_tables,
)
from tools.bench.workloads.workload import Workload

DLRM = "dlrm"
WIDE = "wide"
WIDE_COLUMNS = 40
ARRAYS = 3  # of each table: its weights, m and v
# Rows of each table, and latency each way to its server. One number of rows is enough on a server:
# what more of them cost shows in one process.
_MEASURED: Tuple[Tuple[int, Optional[float]], ...] = (
    (20000, None),
    (200000, None),
    (1000000, None),
    (200000, 1.0),
)
_ROOM = 1.15  # for what a step or an initializer holds otherwise

NEVER_BELOW = Goal(">=", 0.97)
RATIO_TO_STOCK: Dict[Tuple[str, int, Optional[float]], Goal] = {
    (DLRM, 200000, None): Goal(">=", 8.0),
    (DLRM, 1000000, None): Goal(">=", 30.0),
}
RATIO_TO_LAZY = Goal(">=", 0.85)
GROWTH = Goal("<=", 0.1)


class Scenario(NamedTuple):
    """A workload, the rows of its tables, and where they are.

    Attributes:
        workload: "dlrm" or "wide".
        tables: their number and shape.
        delay_ms: latency each way to the parameter server; None: all in one process.
        batch: rows a step.
    """

    workload: str
    tables: Tables
    delay_ms: Optional[float] = None
    batch: int = 512

    @property
    def servers(self) -> int:
        """Parameter servers."""
        return 0 if self.delay_ms is None else 1

    @property
    def bytes_needed(self) -> int:
        """Memory that all modes side by side take."""
        return int(_ROOM * len(ADAM_MODES) * ARRAYS * self.tables.bytes)

    @property
    def params(self) -> Dict[str, Any]:
        """The scenario as params of a record; `delay_ms` is absent when local."""
        return dict(rows=self.tables.rows, **self.params_but_rows)

    @property
    def params_but_rows(self) -> Dict[str, Any]:
        """What scenarios have in common that differ in their rows alone."""
        params = {"tables": self.tables.number, "width": self.tables.width, "batch": self.batch}
        return params if self.delay_ms is None else dict(params, delay_ms=self.delay_ms)

    def model(self, quick: bool = False) -> Workload:
        """Model and data; `quick` makes small layers and few batches."""
        if self.workload == DLRM:
            return dlrm_with_rows(self.tables.rows, self.batch, quick)
        return wide_with_tables(self.tables, self.batch, quick)

    @property
    def ratio_to_stock(self) -> Goal:
        """What deferred Adam should reach."""
        place = (self.workload, self.tables.rows, self.delay_ms)
        return RATIO_TO_STOCK.get(place, NEVER_BELOW)

    @property
    def ratio_to_lazy(self) -> Optional[Goal]:
        """What deferred Adam should reach, where there is a goal."""
        return RATIO_TO_LAZY if (self.workload, self.delay_ms) == (DLRM, None) else None

    def __str__(self) -> str:
        where = "local" if self.delay_ms is None else "server {:g} ms away".format(self.delay_ms)
        return "{}, {:,} rows, {}".format(self.workload, self.tables.rows, where)


def scenario_of(workload: str, rows: int, delay_ms: Optional[float] = None) -> Scenario:
    """A workload as it is measured, with so many rows in each table."""
    if workload == DLRM:
        return Scenario(DLRM, Tables(len(CATEGORICALS), rows, ModelOptions().dimension), delay_ms)
    return Scenario(workload, Tables(WIDE_COLUMNS, rows, WIDE_WIDTH), delay_ms)


SCENARIOS = tuple(
    scenario_of(workload, rows, delay_ms)
    for workload in (DLRM, WIDE)
    for rows, delay_ms in _MEASURED
)
QUICK_SCENARIOS = tuple(Scenario(WIDE, Tables(4, rows, 4), batch=32) for rows in (500, 1000))
