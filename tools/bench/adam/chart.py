"""A picture of training with Adam: steps a second over the rows of a table, for each mode."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from tools.bench import pages
from tools.bench.records import Outcome, Record
from tools.bench.training.chart_style import WORKLOADS, without_frame
from tools.bench.training.sessions import DEFERRED, LAZY, STOCK

# Names, colours and line styles; the colours stand out from white and from black.
MODES: Dict[str, Tuple[str, str, str]] = {
    STOCK: ("TensorFlow alone", "#8c959f", "-"),
    DEFERRED: ("graph_opt, the same results", "#218bff", "-"),
    LAZY: ("graph_opt, lazy", "#bf8700", ":"),
}
_MODELS = ("dlrm", "wide")
_FIGURE = "steps_per_s"
_INCHES = (3.8, 2.5)  # of a panel
Place = Optional[float]


def adam_chart(outcome: Outcome) -> Any:
    """A panel for each model and place of its tables."""
    from matplotlib.figure import Figure

    places: List[Place] = sorted({_place(each) for each in _rates(outcome)}, key=_nearness)
    models = [name for name in _MODELS if any(each.workload == name for each in _rates(outcome))]
    size = (_INCHES[0] * len(models), _INCHES[1] * len(places) + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(places), len(models), sharex=True, sharey=True, squeeze=False)
    for row, place in enumerate(places):
        for column, model in enumerate(models):
            _draw(panels[row][column], outcome, model, place)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def _draw(axis: Any, outcome: Outcome, model: str, place: Place) -> None:
    if not any((each.workload, _place(each)) == (model, place) for each in _rates(outcome)):
        axis.set_visible(False)
        return
    rates = {
        mode: {
            int(each.params["rows"]): each.value
            for each in _rates(outcome)
            if (each.workload, each.mode, _place(each)) == (model, mode, place)
        }
        for mode in MODES
    }
    for mode, (name, colour, style) in MODES.items():
        shown = sorted(rates[mode].items())
        axis.plot(*zip(*shown), style, color=colour, label=name, marker="o", markersize=4)
    for rows, rate in rates[STOCK].items():
        _say(axis, rate, (rows, rate), -13)
    for rows, rate in rates[DEFERRED].items():  # above the points of lazy, too
        _say(axis, rate, (rows, max(rate, rates[LAZY].get(rows, 0.0))), 6)
    axis.set_title("{}, tables {}".format(WORKLOADS[model], pages.place(place)), fontsize=9)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.margins(x=0.12, y=0.25)
    ticks = sorted({each.params["rows"] for each in _rates(outcome)})
    axis.set_xticks(ticks, ["{:,}".format(each) for each in ticks], fontsize=8)
    axis.yaxis.set_major_formatter("{x:,g}")
    axis.tick_params(color=MODES[STOCK][1], labelsize=8)
    axis.minorticks_off()
    axis.set_xlabel("rows of a table", fontsize=8)
    axis.set_ylabel("steps a second", fontsize=8)
    axis.label_outer()
    without_frame(axis)


def _say(axis: Any, rate: float, point: Tuple[int, float], points_above: int) -> None:
    place = dict(textcoords="offset points", xytext=(0, points_above), ha="center", fontsize=8)
    axis.annotate("{:.3g}".format(rate), point, **place)


def _rates(outcome: Outcome) -> List[Record]:
    return [each for each in outcome.records if each.figure == _FIGURE]


def _place(record: Record) -> Place:
    return record.params.get("delay_ms")


def _nearness(place: Place) -> float:
    return -1.0 if place is None else place
