"""A picture of ratios: a bar each, with the spread of its rounds, and a line at 1."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from tools.bench.records import Record
from tools.bench.training.chart_style import COLOURS, FLOOR_COLOUR, GREY, without_frame
from tools.bench.training.sessions import ASYNC, BOTH

_INCHES_A_BAR = 0.24
_INCHES_BESIDE = 0.9
_WIDTH = 7.6
_NARROW = 0.1  # of the chart: no room for a number
_SPREAD = COLOURS[ASYNC]
_POINTS_INSIDE = 3
_POINTS_BEHIND_A_SPREAD = 6  # Nearer, the spread reads as a minus sign.
_WORDS: Dict[str, Any] = {"va": "center", "fontsize": 8}


class Bar(NamedTuple):
    """A bar.

    Attributes:
        label: what it shows.
        ratio: the ratio, with those of its rounds.
        at_most: what the machine allows, if that is known.
    """

    label: str
    ratio: Record
    at_most: Optional[float] = None


def ratio_chart(bars: Sequence[Bar], axis_label: str) -> Any:
    """Draws bars from the top down.

    Args:
        bars: at least one.
        axis_label: what the ratio is of, and which end is better.

    Returns:
        A figure of matplotlib.
    """
    from matplotlib.figure import Figure

    height = _INCHES_A_BAR * len(bars) + _INCHES_BESIDE
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axis = figure.subplots()
    values = [bar.ratio.value for bar in bars]
    longest = max([*values, *(bar.at_most or 0.0 for bar in bars)])
    axis.barh(range(len(bars)), values, 0.7, color=COLOURS[BOTH])
    for place, bar in enumerate(bars):
        runs = bar.ratio.runs or (bar.ratio.value,)
        axis.hlines(place, min(runs), max(runs), colors=_SPREAD, linewidth=1.5)
        if bar.at_most is not None:
            axis.vlines(bar.at_most, place - 0.4, place + 0.4, colors=FLOOR_COLOUR, linewidth=2)
        is_wide = bar.ratio.value > _NARROW * longest
        words = "{:.2f}".format(bar.ratio.value)
        where = (0.0 if is_wide else max(runs), place)
        offset = _POINTS_INSIDE if is_wide else _POINTS_BEHIND_A_SPREAD
        text = axis.annotate(words, where, (offset, 0), textcoords="offset points", **_WORDS)
        if is_wide:
            text.set_color("white")
    axis.axvline(1.0, color=GREY, linewidth=1, zorder=0)  # Behind bars, which have numbers.
    axis.set_yticks(range(len(bars)), [bar.label for bar in bars], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.12 * max(axis.dataLim.x1, 1.0))
    axis.tick_params(labelsize=8, color=GREY)
    axis.set_xlabel(_explained(bars, axis_label), fontsize=9)
    without_frame(axis)
    return figure


def _explained(bars: Sequence[Bar], axis_label: str) -> str:
    marks: List[str] = []
    if any(len(bar.ratio.runs) > 1 for bar in bars):
        marks.append("yellow: lowest to highest round")
    if any(bar.at_most is not None for bar in bars):
        marks.append("red: what the machine allows")
    return "\n".join([axis_label, "; ".join(marks)] if marks else [axis_label])
