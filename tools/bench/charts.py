"""Pictures of a benchmark's figures, as SVG files that read well on light and on dark pages.

    train.svg     every scenario: how many times as fast as stock each mode is, and could be
    summary.svg   the same of both flags alone, without and with a parameter server
    cluster.svg, cluster_floor.svg   with parameter servers, near and far
    adam.svg      steps a second with Adam, over the rows of a table
    exact.svg     steps a second with exact rows over those of fused lookups
    dynamic.svg, deeprec.svg, collectives.svg, serving.svg   ratios, each with its spread
    scaling.svg   bytes and time of a step, over the number of ranks

They are drawn from the outcome that stands in the JSON file, and from nothing else.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from tools.bench.adam.chart import adam_chart
from tools.bench.collectives.page import collectives_chart
from tools.bench.deeprec.page import deeprec_chart
from tools.bench.dynamic_tables.page import dynamic_chart
from tools.bench.pages import place
from tools.bench.records import Outcome, Record
from tools.bench.scaling.chart import scaling_chart
from tools.bench.serving.page import serving_chart
from tools.bench.training.chart_style import COLOURS, FLOOR_COLOUR, WORKLOADS
from tools.bench.training.cluster_chart import cluster_chart, floor_chart
from tools.bench.training.exact_page import exact_chart
from tools.bench.training.sessions import ASYNC, BOTH, FUSED, STOCK

MODES: Dict[str, str] = {
    STOCK: "TensorFlow alone",
    ASYNC: "run ahead",
    FUSED: "fused",
    BOTH: "graph_opt: fused and ahead",
}
SUMMARY_DELAYS: Tuple[Optional[float], ...] = (None, 1.0)
_ELSEWHERE = {"workers", "servers", "zipf", "cores"}  # params of scenarios with charts of their own
_BAR = 0.8  # of the room that a scenario has
_WORDS: Dict[str, Any] = {"va": "center_baseline", "fontsize": 8, "textcoords": "offset points"}
_STYLE = (
    "<style>text { fill: #1f2328 } "
    "@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }</style>"
)


class Case(NamedTuple):
    """A scenario as the charts show it: a model and where its tables are."""

    workload: str
    delay_ms: Optional[float]

    @property
    def model(self) -> str:
        """The model's name."""
        return WORKLOADS[self.workload]

    @property
    def tables(self) -> str:
        """Where the tables are."""
        return "on a server" if self.delay_ms == 0.0 else place(self.delay_ms)


def cases(outcome: Outcome) -> List[Case]:
    """The scenarios of an outcome, the model that gains most first, the nearest tables first."""
    found = {
        Case(record.workload, record.params.get("delay_ms"))
        for record in outcome.records
        if _ELSEWHERE.isdisjoint(record.params)
    }
    order = list(WORKLOADS)
    return sorted(
        found,
        key=lambda case: (
            order.index(case.workload),
            -1.0 if case.delay_ms is None else case.delay_ms,
        ),
    )


def figure_of(outcome: Outcome, case: Case, figure: str, mode: str) -> Optional[Record]:
    """The one record with this figure of a mode; None where it was not measured."""
    where = dict(delay_ms=case.delay_ms, **dict.fromkeys(_ELSEWHERE))
    return outcome.find(figure, case.workload, mode, **where)


def ratio_at_best(outcome: Outcome, case: Case) -> Optional[float]:
    """How many times as fast as stock the floor of mode both is."""
    stock = figure_of(outcome, case, "steps_per_s", STOCK)
    floor = figure_of(outcome, case, "floor_s_per_step", BOTH)
    return 1.0 / (stock.value * floor.value) if stock and floor else None


def train_chart(outcome: Outcome) -> Any:
    """Every scenario, with a bar for each mode and a line where the floor is."""
    shown = cases(outcome)
    figure, axis = _figure(7.6, 0.5 * len(shown) + 1.0)
    modes = (ASYNC, FUSED, BOTH)
    for row, case in enumerate(shown):
        for number, mode in enumerate(modes):
            record = figure_of(outcome, case, "ratio_to_stock", mode)
            if record is not None:
                position = row + _BAR * ((number + 0.5) / len(modes) - 0.5)
                _bar(axis, position, record.value, _BAR / len(modes), mode)
                _say_inside(axis, position, record.value)
        best = ratio_at_best(outcome, case)
        if best is not None:
            axis.vlines(best, row - _BAR / 2, row + _BAR / 2, colors=FLOOR_COLOUR, linewidth=2)
    axis.axvline(1.0, color=COLOURS[STOCK], linewidth=1, zorder=0)
    _finish(axis, shown, [*modes, None])
    axis.set_xlabel("times as fast as TensorFlow alone", fontsize=9)
    return figure


def summary_chart(outcome: Outcome) -> Any:
    """How many times as fast as stock both is, with the steps a second of each."""
    shown = [case for case in cases(outcome) if case.delay_ms in SUMMARY_DELAYS]
    figure, axis = _figure(7.6, 0.42 * len(shown) + 0.7)
    for row, case in enumerate(shown):
        rates = [figure_of(outcome, case, "steps_per_s", mode) for mode in (STOCK, BOTH)]
        ratio = figure_of(outcome, case, "ratio_to_stock", BOTH)
        if None in rates or ratio is None:
            continue
        _bar(axis, row, ratio.value, _BAR, BOTH)
        _say_inside(axis, row, ratio.value)
        words = "{:.3g} → {:.3g} steps/s".format(*(rate.value for rate in rates if rate))
        axis.annotate(words, (ratio.value, row), xytext=(4, 0), **_WORDS)
    axis.axvline(1.0, color=COLOURS[STOCK], linewidth=1)
    _finish(axis, shown, [BOTH])
    axis.set_xlim(0, 1.3 * axis.dataLim.x1)
    axis.set_xlabel("times as fast as TensorFlow alone", fontsize=9)
    return figure


CHARTS: Dict[str, Dict[str, Callable[[Outcome], Any]]] = {
    "train": {
        "train.svg": train_chart,
        "summary.svg": summary_chart,
        "cluster.svg": cluster_chart,
        "cluster_floor.svg": floor_chart,
        "exact.svg": exact_chart,
    },
    "adam": {"adam.svg": adam_chart},
    "scaling": {"scaling.svg": scaling_chart},
    "dynamic": {"dynamic.svg": dynamic_chart},
    "deeprec": {"deeprec.svg": deeprec_chart},
    "collectives": {"collectives.svg": collectives_chart},
    "serving": {"serving.svg": serving_chart},
}


def write(bench: str, outcome: Outcome, folder: Path) -> List[Path]:
    """Writes a benchmark's charts, if it has any.

    Args:
        bench: its name.
        outcome: what it measured.
        folder: where the files go.

    Returns:
        The files.
    """
    paths = []
    for name, chart in CHARTS.get(bench, {}).items():
        drawn = chart(outcome)
        if drawn is None:
            continue
        paths.append(folder / name)
        paths[-1].write_text(svg(drawn), encoding="utf-8")
    return paths


def svg(figure: Any) -> str:
    """The figure as SVG text: words stay words, and the same figure is the same text."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "graph_opt"}):
        figure.savefig(
            buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    text = re.sub(r"[ \t]+$", "", buffer.getvalue(), flags=re.MULTILINE)
    return text.replace("<defs>", _STYLE + "\n <defs>", 1)


def _figure(width: float, height: float) -> Tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _bar(axis: Any, position: float, value: float, height: float, mode: str) -> None:
    axis.barh(position, value, height, color=COLOURS[mode])


def _say_inside(axis: Any, position: float, value: float) -> None:
    """Writes a figure at the end of its bar."""
    place = dict(xytext=(-3, 0), ha="right", color="white")
    axis.annotate("{:.2f}".format(value), (value, position), **place, **_WORDS)


def _finish(axis: Any, shown: Sequence[Case], modes: Sequence[Optional[str]]) -> None:
    """Titles of the scenarios, the legend, and no frame."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axis.set_yticks(
        range(len(shown)),
        ["{}, tables\n{}".format(case.model, case.tables) for case in shown],
        fontsize=9,
    )
    axis.tick_params(length=0, labelsize=9)
    axis.invert_yaxis()
    for spine in axis.spines.values():
        spine.set_visible(False)
    handles = [
        Line2D([], [], color=FLOOR_COLOUR, linewidth=2, label="what the machine allows")
        if mode is None
        else Patch(color=COLOURS[mode], label=MODES[mode])
        for mode in modes
    ]
    axis.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=4, frameon=False,
        fontsize=9,
    )  # fmt: skip
