"""Figures with their runs and goals, as JSON and as a table.

    {"bench": "async", "machine": {...},
     "records": [{"figure": "ratio_to_stock", "workload": "wide", "mode": "async",
                  "params": {"batch": 512}, "value": 1.42, "runs": [1.40, 1.42, 1.43],
                  "goal": {"op": ">=", "value": 1.3}}, ...],
     "absent": [{"figure": "...", "workload": "...", "mode": "...", "params": {}, "reason": "..."}]}

`absent`, like all that a record does not have, is left out where there is nothing. `source` says
what code was measured, and `foreign_load` what other processes used around each round, in cores.
"""

from __future__ import annotations

import dataclasses
import json
import operator
import statistics
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from tools.bench.foreign_load import RoundLoad
from tools.bench.machine import machine

_COMPARISONS: Dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
}
_SIGNIFICANT_DIGITS = 6
_MAY_LACK = ("unit", "runs", "goal", "floor")
_TITLES: Tuple[str, ...] = (
    "figure", "workload", "mode", "params", "value", "unit", "spread", "floor", "goal",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a figure should reach: `op` is ">=" or "<="."""

    op: str
    value: float

    def is_met(self, value: float) -> bool:
        """Whether a value reaches the goal."""
        return _COMPARISONS[self.op](value, self.value)

    def __str__(self) -> str:
        return "{} {:g}".format(self.op, self.value)


@dataclasses.dataclass(frozen=True)
class Record:
    """One figure.

    Attributes:
        figure: what was measured, such as `steps_per_s`.
        workload: what ran.
        mode: how it ran: `stock`, `async`, `fused`, `both`, or the name of a peer.
        params: sizes and settings.
        value: the median of the runs.
        unit: unit of value and runs, '' for a plain number.
        runs: the value of each round; empty for a figure that is computed from others.
        goal: what the value should reach, if there is a goal.
        floor: the best that the value could be on this machine, in its unit, if that is known.
    """

    figure: str
    workload: str
    mode: str
    params: Dict[str, Any]
    value: float
    unit: str = ""
    runs: Tuple[float, ...] = ()
    goal: Optional[Goal] = None
    floor: Optional[float] = None

    @property
    def is_met(self) -> bool:
        """False where there is a goal and the value misses it."""
        return self.goal is None or self.goal.is_met(self.value)

    def to_dict(self) -> Dict[str, Any]:
        """The record as it stands in the file: without what it does not have."""
        fields = dict(
            vars(self),
            value=_rounded(self.value),
            runs=[_rounded(run) for run in self.runs],
            goal=self.goal and dataclasses.asdict(self.goal),
            floor=None if self.floor is None else _rounded(self.floor),
        )
        absent = [name for name in _MAY_LACK if fields[name] in ("", [], None)]
        return {name: value for name, value in fields.items() if name not in absent}

    @classmethod
    def from_dict(cls, fields: Dict[str, Any]) -> Record:
        """The record that `to_dict` wrote."""
        goal = fields.get("goal")
        known = dict(fields, runs=tuple(fields.get("runs", ())))
        return cls(**dict(known, goal=None if goal is None else Goal(**goal)))


@dataclasses.dataclass(frozen=True)
class Absent:
    """A figure that could not be measured, and why."""

    figure: str
    workload: str
    mode: str
    params: Dict[str, Any]
    reason: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a benchmark found."""

    records: Tuple[Record, ...]
    absent: Tuple[Absent, ...] = ()

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(self.records + other.records, self.absent + other.absent)

    def find(self, figure: str, workload: str, mode: str, **params: Any) -> Optional[Record]:
        """The first such record that has these params, among others; None stands for none."""
        for record in self.records:
            if (record.figure, record.workload, record.mode) == (figure, workload, mode):
                if all(record.params.get(name) == value for name, value in params.items()):
                    return record
        return None

    def value(self, figure: str, workload: str, mode: str, **params: Any) -> Optional[float]:
        """The value of the record that `find` gives."""
        found = self.find(figure, workload, mode, **params)
        return None if found is None else found.value

    def to_dict(self) -> Dict[str, Any]:
        """Plain dicts and lists; `absent` only where something is."""
        fields: Dict[str, Any] = {"records": [record.to_dict() for record in self.records]}
        if self.absent:
            fields["absent"] = [dataclasses.asdict(absent) for absent in self.absent]
        return fields

    @classmethod
    def from_dict(cls, fields: Dict[str, Any]) -> Outcome:
        """The outcome that `to_dict` wrote."""
        return cls(
            tuple(Record.from_dict(record) for record in fields["records"]),
            tuple(Absent(**absent) for absent in fields.get("absent", ())),
        )


def from_runs(
    figure: str,
    workload: str,
    mode: str,
    params: Dict[str, Any],
    runs: Sequence[float],
    unit: str = "",
    goal: Optional[Goal] = None,
    floor: Optional[float] = None,
) -> Record:
    """The record of a figure measured in several rounds: its value is their median."""
    value = statistics.median(runs)
    return Record(figure, workload, mode, params, value, unit, tuple(runs), goal, floor)


def read(path: Path) -> Outcome:
    """The outcome in the file of a benchmark."""
    return Outcome.from_dict(json.loads(path.read_text(encoding="utf-8")))


def write(
    path: Path,
    bench: str,
    outcome: Outcome,
    rounds: Sequence[RoundLoad] = (),
    source: Optional[Dict[str, Any]] = None,
) -> None:
    """Writes the JSON file of a benchmark, making its folder if need be.

    Args:
        path: of the file.
        bench: its name.
        outcome: what it found.
        rounds: what others used of the machine around each round.
        source: what `source.source()` says of the code that was measured.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content: Dict[str, Any] = {"bench": bench, "machine": machine(), **outcome.to_dict()}
    if rounds:
        content["foreign_load"] = [each._asdict() for each in rounds]
    if source:
        content["source"] = source
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def table(outcome: Outcome) -> str:
    """The outcome as text: a line for each record, then what is absent and why.

    Example:
        >>> print(table(outcome))
        figure          workload  mode   params     value  unit  spread  floor  goal
        steps_per_s     wide      stock  batch=512  41     1/s   4.9 %
        ratio_to_stock  wide      async  batch=512  1.42         1.1 %          >= 1.3, met
    """
    rows = [_TITLES]
    rows.extend(_row(record) for record in outcome.records)
    lines = _aligned(rows)
    for absent in outcome.absent:
        where = " ".join([absent.workload, absent.mode, _settings(absent.params)])
        lines.append("no {} of {}: {}".format(absent.figure, where.strip(), absent.reason))
    return "\n".join(lines)


def _row(record: Record) -> Tuple[str, ...]:
    goal = ""
    if record.goal is not None:
        goal = "{}, {}".format(record.goal, "met" if record.is_met else "MISSED")
    return (
        record.figure,
        record.workload,
        record.mode,
        _settings(record.params),
        _short(record.value),
        record.unit,
        _spread(record),
        "" if record.floor is None else _short(record.floor),
        goal,
    )


def _spread(record: Record) -> str:
    """Distance of the farthest run from the median, in per cent of it."""
    if len(record.runs) < 2 or not record.value:
        return ""
    farthest = max(abs(run - record.value) for run in record.runs)
    return "{:.1f} %".format(100.0 * farthest / abs(record.value))


def _settings(params: Dict[str, Any]) -> str:
    return " ".join("{}={}".format(name, value) for name, value in params.items())


def _short(value: float) -> str:
    return "{:,.0f}".format(value) if abs(value) >= 10000 else "{:.4g}".format(value)


def _aligned(rows: Sequence[Tuple[str, ...]]) -> List[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]


def _rounded(value: float) -> float:
    return float("{:.{}g}".format(value, _SIGNIFICANT_DIGITS))
