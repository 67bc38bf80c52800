"""The table of docs/benchmarks.md on exact rows, from exact.json."""

from __future__ import annotations

from typing import List, Optional

from tools.bench.pages import head, place, row, words
from tools.bench.records import Outcome
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.training.sessions import BOTH, EXACT, FUSED, STOCK
from tools.bench.workloads.wide.data import ZIPF_EXPONENT

HEAD = head(
    "model | its tables | ids | TensorFlow alone | fused | and ahead | and exact "
    "| share of the gain | ids written since | the machine allows | MB a step"
)
_MODES = (STOCK, FUSED, BOTH, EXACT)


def rows(outcome: Outcome) -> List[str]:
    """A row for each scenario, in the order they were measured, models in that of the charts."""
    scenarios = dict.fromkeys(
        (each.workload, each.params.get("delay_ms"), each.params.get("zipf"))
        for each in outcome.records
        if "servers" not in each.params
    )
    order = list(WORKLOADS)
    shown = sorted(scenarios, key=lambda scenario: order.index(scenario[0]))
    return [_row(outcome, *scenario) for scenario in shown]


def _row(outcome: Outcome, workload: str, delay_ms: Optional[float], zipf: Optional[float]) -> str:
    def text(form: str, figure: str, mode: str = EXACT) -> str:
        return words(form, outcome.find(figure, workload, mode, delay_ms=delay_ms, zipf=zipf))

    skew = ZIPF_EXPONENT if zipf is None else zipf
    floor = outcome.value("floor_s_per_step", workload, EXACT, delay_ms=delay_ms, zipf=zipf)
    return row(
        WORKLOADS[workload],
        place(delay_ms),
        "Zipf {:g}".format(skew) if skew else "uniform",
        *(
            text("{:.3g} steps/s", "steps_per_s", mode)
            + text(", **{:.2f}**", "ratio_to_stock", mode)
            for mode in _MODES
        ),
        text("{:.2f}", "share_of_async_gain"),
        text("{:.2f}", "conflicting_rows_share"),
        "" if floor is None else "{:.3g} steps/s".format(1.0 / floor),
        "" if delay_ms is None else _megabytes(outcome, workload),
    )


def _megabytes(outcome: Outcome, workload: str) -> str:
    sizes = [outcome.value("bytes_per_step", workload, mode, servers=1) for mode in _MODES]
    return ", ".join("{:.3g}".format(size / 1e6) for size in sizes if size is not None)
