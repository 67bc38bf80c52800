"""What ranks measure: a workload, its modes, and how long each has its turns."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from tools.bench.collectives.modes import LOCAL, MODES
from tools.bench.training.sessions import SessionOptions
from tools.bench.workloads.dlrm.model import ModelOptions
from tools.bench.workloads.measured import WIDE_WIDTH, Tables, dlrm_with_rows, wide_with_tables
from tools.bench.workloads.wide.data import ZIPF_EXPONENT, DataOptions
from tools.bench.workloads.workload import Learning, Workload

DLRM = "dlrm"
RANKS = 2
WIDE = "wide"
_QUICK_COLUMNS = 4


class Setting(NamedTuple):
    """What ranks measure.

    Attributes:
      workload: "dlrm" or "wide".
      modes: some of `modes`.
      batch: rows of a step on each rank.
      rows: of each table; None: as in the other benchmarks.
      zipf: how uneven the ids of "wide" are.
      optimizer: one of `OPTIMIZERS`.
      rounds: turns of each mode.
      seconds: about how long a turn takes.
      steps: how many steps a turn has instead, the same in all modes.
      with_floor: whether the messages, and the model without them, are timed by themselves.
      quick: tiny sizes.
      ranks: how many train together.
    """

    workload: str
    modes: Sequence[str] = MODES
    batch: int = 512
    rows: Optional[int] = None
    zipf: float = ZIPF_EXPONENT
    optimizer: str = Learning().optimizer
    rounds: int = 5
    seconds: float = 0.6
    steps: Optional[int] = None
    with_floor: bool = True
    quick: bool = False
    ranks: int = RANKS

    @property
    def model(self) -> Workload:
        """Model and data."""
        if self.workload == DLRM:
            return dlrm_with_rows(self.tables.rows, self.batch, self.quick)
        return wide_with_tables(self.tables, self.batch, self.quick, self.zipf)

    @property
    def tables(self) -> Tables:
        """The model's tables."""
        if self.workload == DLRM:
            return Tables(26, self.rows or ModelOptions().buckets, ModelOptions().dimension)
        columns = _QUICK_COLUMNS if self.quick else DataOptions().columns
        return Tables(columns, self.rows or DataOptions().buckets, WIDE_WIDTH)

    @property
    def trained(self) -> Sequence[str]:
        """The modes, and the one that has no messages where these are timed by themselves."""
        alone = [LOCAL] if self.with_floor and LOCAL not in self.modes else []
        return [*self.modes, *alone]

    @property
    def learning(self) -> Learning:
        """How it is trained."""
        return Learning(self.optimizer)

    @property
    def session(self) -> SessionOptions:
        """How its sessions are opened."""
        return SessionOptions()
