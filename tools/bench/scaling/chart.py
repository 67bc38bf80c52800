"""A picture of more ranks: what a step moves through the busiest rank, and how long it takes."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from tools.bench.records import Outcome, Record
from tools.bench.scaling.load import CONTIGUOUS, MOD, REPLICATED, WHOLE_TABLES
from tools.bench.training.chart_style import GREY, without_frame

# Names and colours; the colours stand out from white and from black.
MODES: Dict[str, Tuple[str, str]] = {
    MOD: ("row i on rank i % N", "#218bff"),
    CONTIGUOUS: ("blocks of rows", "#bf8700"),
    WHOLE_TABLES: ("whole tables", "#2da44e"),
    REPLICATED: ("every rank has all (Horovod)", "#8c959f"),
}
_STYLES = {"hashed": ("-", "keys hashed"), "by_frequency": (":", "keys numbered by frequency")}
_INCHES = (7.8, 3.6)
_MEGA = 1e6
_MILLI = 1e3
Points = List[Tuple[int, float]]


def scaling_chart(outcome: Outcome) -> Any:
    """Two panels: bytes and time of a step, over the number of ranks."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, layout="constrained")
    left, right = figure.subplots(1, 2)
    for mode, (name, colour) in MODES.items():
        for ids, (style, _) in _STYLES.items():
            sizes = points(outcome, "simulated_bytes", mode, ids)[1:]
            times = points(outcome, "simulated_s_per_step", mode, ids)[1:]
            left.plot(*zip(*[(n, size / _MEGA) for n, size in sizes]), style, color=colour)
            right.plot(
                *zip(*[(n, seconds * _MILLI) for n, seconds in times]),
                style,
                color=colour,
                label=name if style == "-" else None,
            )
        for axis, figure_measured, unit in (
            (left, "bytes_per_step", 1 / _MEGA),
            (right, "cpu_s_per_step", _MILLI),
        ):
            for ranks, value in points(outcome, figure_measured, mode):
                axis.plot(ranks, value * unit, "o", color=colour, markersize=6)
    left.plot([], [], "o", color=GREY, label="measured")
    right.plot([], [], "o", color=GREY, label="measured, CPU time")
    for style, words in _STYLES.values():
        left.plot([], [], style, color=GREY, label=words)
    left.set_ylabel("MB through the busiest rank, in a step", fontsize=8)
    right.set_ylabel("ms of a step, each rank with its own core", fontsize=8)
    for axis in (left, right):
        _finish(axis, [n for n, _ in points(outcome, "simulated_bytes", MOD, "hashed")])
        axis.legend(frameon=False, fontsize=7)
    return figure


def points(outcome: Outcome, figure: str, mode: str, ids: str = "") -> Points:
    """A figure over the number of ranks."""
    found = [
        each
        for each in outcome.records
        if (each.figure, each.mode, _ids(each)) == (figure, mode, ids)
    ]
    return sorted((int(each.params["ranks"]), each.value) for each in found)


def _ids(record: Record) -> str:
    return str(record.params.get("ids", ""))


def _finish(axis: Any, numbers: List[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    shown = [number for number in numbers if number in (2, 4, 8, 64, 512)]
    axis.set_xticks(shown, [str(number) for number in shown], fontsize=8)
    axis.tick_params(color=GREY, labelsize=8)
    axis.minorticks_off()
    axis.set_xlabel("ranks", fontsize=8)
    without_frame(axis)
