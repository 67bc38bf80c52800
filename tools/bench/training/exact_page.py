"""The table of docs/benchmarks.md on exact rows, from exact.json."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

from tools.bench.records import Outcome, Record
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.training.sessions import BOTH, EXACT, FUSED, STOCK
from tools.bench.workloads.wide.data import ZIPF_EXPONENT

HEAD = (
    "| model | its tables | ids | TensorFlow alone | fused | and ahead | and exact "
    "| share of the gain | ids written since | the machine allows | MB a step |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
)
_MODES = (STOCK, FUSED, BOTH, EXACT)


class Place(NamedTuple):
    """A scenario: a model, where its tables are, and how uneven its ids are."""

    workload: str
    delay_ms: Optional[float]
    zipf: float

    @property
    def tables(self) -> str:
        """Where the tables are."""
        if self.delay_ms is None:
            return "in the process"
        return "on a server {:g} ms away".format(self.delay_ms)

    @property
    def ids(self) -> str:
        """How ids are distributed."""
        return "Zipf {:g}".format(self.zipf) if self.zipf else "uniform"


Values = Dict[str, Dict[str, Record]]


def rows(outcome: Outcome) -> List[str]:
    """A row for each scenario, in the order they were measured, models in that of the charts."""
    places: Dict[Place, Values] = {}
    for record in outcome.records:
        if "servers" not in record.params:
            of_place = places.setdefault(_place(record), {})
            of_place.setdefault(record.figure, {})[record.mode] = record
    order = list(WORKLOADS)
    shown = sorted(places, key=lambda place: order.index(place.workload))
    return [_row(outcome, place, places[place]) for place in shown]


def _place(record: Record) -> Place:
    zipf = record.params.get("zipf", ZIPF_EXPONENT)
    return Place(record.workload, record.params.get("delay_ms"), zipf)


def _row(outcome: Outcome, place: Place, values: Values) -> str:
    cells = [WORKLOADS[place.workload], place.tables, place.ids]
    cells += [_speed(values, mode) for mode in _MODES]
    for figure in ("share_of_async_gain", "conflicting_rows_share"):
        cells.append(_text(values, "{:.2f}", figure, EXACT))
    floor = values.get("floor_s_per_step", {}).get(EXACT)
    cells.append("" if floor is None else "{:.3g} steps/s".format(1.0 / floor.value))
    cells.append(_megabytes(outcome, place))
    return "| {} |".format(" | ".join(cells))


def _speed(values: Values, mode: str) -> str:
    ratio = _text(values, ", **{:.2f}**", "ratio_to_stock", mode)
    return _text(values, "{:.3g} steps/s", "steps_per_s", mode) + ratio


def _text(values: Values, form: str, figure: str, mode: str) -> str:
    found = values.get(figure, {}).get(mode)
    return "" if found is None else form.format(found.value)


def _megabytes(outcome: Outcome, place: Place) -> str:
    if place.delay_ms is None:
        return ""
    sizes = [outcome.value("bytes_per_step", place.workload, mode, servers=1) for mode in _MODES]
    return ", ".join("{:.3g}".format(size / 1e6) for size in sizes if size is not None)
