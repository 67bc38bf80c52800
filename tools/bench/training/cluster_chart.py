"""Pictures of training on parameter servers.

cluster.svg        how many times as fast as TensorFlow alone, over the distance of servers
cluster_floor.svg  how long a step takes, and the least that it could take on this machine
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from tools.bench.records import Outcome, Record
from tools.bench.training.chart_style import COLOURS, FLOOR_COLOUR, GREY, WORKLOADS, without_frame
from tools.bench.training.sessions import ASYNC, BOTH, FUSED, PIPELINED, RETURNED, STOCK

MODES: Dict[str, str] = {
    STOCK: "TensorFlow alone",
    ASYNC: "run ahead",
    FUSED: "fused",
    BOTH: "fused and ahead",
    RETURNED: "and weights returned by updates",
    PIPELINED: "and dense layers pipelined",
}
WORKERS = {1: "one worker, one server", 2: "two workers, two servers"}
_STYLES = {1: "-", 2: ":"}
_BAR = 0.8  # of the room that a scenario has


def cluster_chart(outcome: Outcome) -> Any:
    """Ratios to TensorFlow alone, a panel for each model."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.8, 3.4), layout="constrained")
    for axis, workload in zip(figure.subplots(1, 2), WORKLOADS):
        axis.axhline(1.0, color=COLOURS[STOCK], linewidth=1)
        for mode in (ASYNC, FUSED, BOTH, RETURNED, PIPELINED):
            for workers, style in _STYLES.items():
                points = over_delays(outcome, "ratio_to_stock", workload, mode, workers)
                if not points:
                    continue
                name = MODES[mode] if workers == 1 else None
                axis.plot(*zip(*points), style, marker=".", color=COLOURS[mode], label=name)
        for workers, style in _STYLES.items():
            axis.plot([], [], style, color=GREY, label=WORKERS[workers])
        axis.set_title(WORKLOADS[workload], fontsize=9)
        axis.set_xlabel("ms to a server, each way", fontsize=8)
        axis.set_xticks([0, 1, 3])
        axis.set_ylim(bottom=0)
        axis.tick_params(color=GREY, labelsize=8)
        without_frame(axis)
    axis.legend(frameon=False, fontsize=7)
    figure.supylabel("times as fast as TensorFlow alone", fontsize=8)
    return figure


def floor_chart(outcome: Outcome) -> Any:
    """Milliseconds of a step with one worker, and lines where the floors are."""
    from matplotlib.figure import Figure

    shown = [
        (workload, delay)
        for workload in WORKLOADS
        for delay, _ in over_delays(outcome, "steps_per_s", workload, STOCK, 1)
    ]
    figure = Figure(figsize=(7.8, 0.6 * len(shown) + 0.9), layout="constrained")
    axis = figure.subplots()
    measured = {record.mode for record in outcome.records if record.figure == "steps_per_s"}
    modes = [mode for mode in (STOCK, BOTH, RETURNED, PIPELINED) if mode in measured]
    for row, (workload, delay) in enumerate(shown):
        for number, mode in enumerate(modes):
            rate = value_of(outcome, "steps_per_s", workload, mode, 1, delay)
            if rate is None:
                continue
            height = _BAR / len(modes)
            position = row + _BAR * ((number + 0.5) / len(modes) - 0.5)
            axis.barh(position, 1e3 / rate, height, color=COLOURS[mode])
            floor = value_of(outcome, "floor_s_per_step", workload, mode, 1, delay)
            if floor is not None:
                ends = position - height / 2, position + height / 2
                axis.vlines(1e3 * floor, *ends, colors=FLOOR_COLOUR, linewidth=2)
    titles = ["{}, {:g} ms".format(WORKLOADS[workload], delay) for workload, delay in shown]
    axis.set_yticks(range(len(shown)), titles, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("ms a step", fontsize=8)
    axis.tick_params(length=0, labelsize=8)
    for mode in modes:
        axis.barh(0, 0, 0, color=COLOURS[mode], label=MODES[mode])
    axis.plot([], [], color=FLOOR_COLOUR, linewidth=2, label="what the machine allows")
    axis.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.4, 1.0))
    without_frame(axis)
    return figure


def over_delays(
    outcome: Outcome, figure: str, workload: str, mode: str, workers: int
) -> List[Tuple[float, float]]:
    """A figure over the milliseconds to a server."""
    return sorted(
        (record.params["delay_ms"], record.value)
        for record in outcome.records
        if _is(record, figure, workload, mode, workers)
    )


def record_of(
    outcome: Outcome, figure: str, workload: str, mode: str, workers: int, delay_ms: float
) -> Optional[Record]:
    """A figure of one scenario with its rounds; None where it was not measured."""
    found = (one for one in outcome.records if _is(one, figure, workload, mode, workers))
    return next((one for one in found if one.params["delay_ms"] == delay_ms), None)


def value_of(
    outcome: Outcome, figure: str, workload: str, mode: str, workers: int, delay_ms: float
) -> Optional[float]:
    """The value of that record."""
    found = record_of(outcome, figure, workload, mode, workers, delay_ms)
    return None if found is None else found.value


def _is(record: Record, figure: str, workload: str, mode: str, workers: int) -> bool:
    return (
        (record.figure, record.workload, record.mode) == (figure, workload, mode)
        and record.params.get("workers", 1) == workers
        and "delay_ms" in record.params
    )
