"""What ranks measure: a workload, its modes, and how long each has its turns."""

from __future__ import annotations

import argparse
from typing import List, NamedTuple, Optional, Sequence

from tools.bench.argument_types import positive
from tools.bench.collectives.modes import LOCAL, MODES, SESSION_MODES
from tools.bench.training.sessions import SessionOptions
from tools.bench.workloads.dlrm.model import ModelOptions
from tools.bench.workloads.measured import WIDE_WIDTH, Tables, dlrm_with_rows, wide_with_tables
from tools.bench.workloads.wide.data import ZIPF_EXPONENT, DataOptions
from tools.bench.workloads.workload import Learning, Workload

DLRM = "dlrm"
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
    """

    workload: str
    modes: Sequence[str] = MODES
    batch: int = 512
    rows: Optional[int] = None
    zipf: float = ZIPF_EXPONENT
    optimizer: str = Learning().optimizer
    rounds: int = 5
    seconds: float = 1.0
    steps: Optional[int] = None
    with_floor: bool = True
    quick: bool = False

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
    def learning(self) -> Learning:
        """How it is trained."""
        return Learning(self.optimizer)

    @property
    def session(self) -> SessionOptions:
        """How its sessions are opened."""
        return SessionOptions()

    @property
    def flags(self) -> List[str]:
        """The command line from which `setting_from_flags` makes it."""
        flags = ["--workload", self.workload, "--modes", *self.modes]
        for name in ("batch", "rows", "zipf", "optimizer", "rounds", "seconds", "steps"):
            value = getattr(self, name)
            if value is not None:
                flags += ["--" + name, str(value)]
        flags += ["--with-floor"] * self.with_floor + ["--quick"] * self.quick
        return flags


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that `setting_from_flags` reads."""
    defaults = Setting(WIDE)
    parser.add_argument("--workload", choices=(DLRM, WIDE), required=True)
    parser.add_argument("--modes", nargs="+", choices=sorted(SESSION_MODES), default=MODES)
    parser.add_argument("--batch", type=positive, default=defaults.batch)
    parser.add_argument("--rows", type=positive, help="of each table")
    parser.add_argument("--zipf", type=float, default=defaults.zipf)
    parser.add_argument("--optimizer", default=defaults.optimizer)
    parser.add_argument("--rounds", type=positive, default=defaults.rounds)
    parser.add_argument("--seconds", type=float, default=defaults.seconds)
    parser.add_argument("--steps", type=positive, help="of each turn; none: by --seconds")
    parser.add_argument("--with-floor", action="store_true")
    parser.add_argument("--quick", action="store_true", help="tiny sizes")


def setting_from_flags(flags: argparse.Namespace) -> Setting:
    """The setting that the flags describe."""
    setting = Setting(**{name: getattr(flags, name) for name in Setting._fields})
    if setting.with_floor and LOCAL not in setting.modes:
        setting = setting._replace(modes=[*setting.modes, LOCAL])
    return setting
