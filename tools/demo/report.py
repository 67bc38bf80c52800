"""The demo's report: what the passes did, how fast each mode was, what it learned, who waited."""

from __future__ import annotations

import argparse
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from tools.bench.machine import cores
from tools.bench.training.contenders import LOOKUPS_ALONE, MAIN_ALONE, Turn, Turns
from tools.bench.training.measurement import Figures
from tools.bench.training.sessions import ASYNC, BOTH, MODES, STOCK
from tools.bench.workloads.scoring import Score
from tools.demo.timeline import INPUT_STAGE_ENDING, Panel

_COLUMN = 29
_LABEL = 20
_MICROS_PER_MILLI = 1000.0


class Part(NamedTuple):
    """One setting's outcome: timed turns, figures from them, scores, the pass's report, panels."""

    title: str
    turns: Turns
    figures: Figures
    scores: Dict[str, Score]
    report: Any
    panels: List[Panel]


def report(parts: Sequence[Part], flags: argparse.Namespace) -> str:
    """The whole report as text."""
    sections = [
        [
            "",
            f"DLRM: 26 tables of {flags.buckets} x {flags.dimension}, batch {flags.batch}, "
            f"{flags.optimizer}; {parts[0].scores[STOCK].rows} held-out rows",
            f"TensorFlow {tf.version.VERSION} on {cores()} cores; medians of "
            f"{flags.rounds} turns of {flags.steps} steps, A B C D A B C D",
            "",
            *_modes(),
            "",
            "What graph_opt found and did (both)",
        ],
        _indented(str(parts[0].report)),
        ["", _row("", [part.title for part in parts])],
        *(
            ["", title, *(_row(mode, [value(part, mode) for part in parts]) for mode in MODES)]
            for title, value in TABLES
        ),
        ["", "How much of the possible gain async gains"],
        [_row(label, [value(part) for part in parts]) for label, value in FLOOR_ROWS],
        ["", "Who waited for whom in both (milliseconds a step)"],
        [_row(label, [value(part) for part in parts]) for label, value in WAIT_ROWS],
        ["", *_explanation(), ""],
    ]
    return "\n".join(line for section in sections for line in section)


def _row(label: str, values: Sequence[str]) -> str:
    return f"  {label:<{_LABEL}}" + "".join(f"{value:>{_COLUMN}}" for value in values)


def _indented(text: str) -> List[str]:
    return [f"  {line}" for line in text.splitlines()]


def _rate(part: Part, mode: str) -> str:
    runs = sorted(1.0 / turn.seconds_per_step for turn in part.turns[mode])
    ratio = part.figures.ratios_to_stock.get(mode, 1.0)
    rate = 1.0 / part.figures.seconds[mode]
    times = _short(ratio, 2)
    return f"{_short(rate)} ({_short(runs[0])} to {_short(runs[-1])}) {times}x"


def _short(value: float, digits: int = 1) -> str:
    """With so many digits of its fraction; those of large numbers would not fit the column."""
    return f"{value:.0f}" if value >= 100 else f"{value:.{digits}f}"


def _milliseconds(seconds: Optional[float]) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f} ms"


def _efficiency(part: Part) -> str:
    efficiency, floor = part.figures.overlap_efficiency, part.figures.floor
    if efficiency is None or floor is None:
        return "- (stock is at the floor)"
    room = part.figures.seconds[STOCK] / floor - 1
    return f"{efficiency:.2f} (stock is {room:.0%} above)"


def _cpu(part: Part, mode: str) -> str:
    return _milliseconds(part.figures.cpu_seconds[mode])


def _score(part: Part, mode: str) -> str:
    score = part.scores[mode]
    return f"{score.auc:.4f}, {score.log_loss:.4f}"


def _wait(part: Part, is_input: bool, counter: str) -> str:
    """Mean wait per batch over all timed turns, at the input's or at the lookups' buffer."""
    total, batches = 0, 0
    for turn in part.turns[BOTH]:
        for counters in _counters(turn, is_input):
            total += counters[counter]
            batches += counters["take_count"]
    return f"{total / _MICROS_PER_MILLI / batches:.2f}" if batches else "-"


def _counters(turn: Turn, is_input: bool) -> List[Dict[str, int]]:
    return [
        counters
        for stage, counters in turn.buffers.items()
        if stage.endswith(INPUT_STAGE_ENDING) == is_input
    ]


# A table has a row for each mode.
TABLES = (
    ("Steps a second (lowest and highest turn), times stock", _rate),
    ("CPU time a step, all processes", _cpu),
    ("AUC, log loss", _score),
)

FLOOR_ROWS = (
    ("stock step", lambda part: _milliseconds(part.figures.seconds[STOCK])),
    ("async step", lambda part: _milliseconds(part.figures.seconds[ASYNC])),
    ("main alone", lambda part: _milliseconds(part.figures.seconds[MAIN_ALONE])),
    ("lookups alone", lambda part: _milliseconds(part.figures.seconds[LOOKUPS_ALONE])),
    ("floor", lambda part: _milliseconds(part.figures.floor)),
    ("overlap efficiency", _efficiency),
)

WAIT_ROWS = (
    ("main, for lookups", lambda part: _wait(part, False, "take_wait_micros")),
    ("lookups, for main", lambda part: _wait(part, False, "put_wait_micros")),
    ("lookups, for input", lambda part: _wait(part, True, "take_wait_micros")),
    ("input, for lookups", lambda part: _wait(part, True, "put_wait_micros")),
)


def _modes() -> List[str]:
    return [
        "stock: TensorFlow alone",
        "async: lookups run ahead of the main graph",
        "fused: all lookups are one op, and their updates another",
        "both:  fused, and run ahead",
    ]


def _explanation() -> List[str]:
    return [
        "Floor: the longest of main alone, lookups alone and CPU time over cores; no",
        "schedule can be faster. Overlap efficiency: the part of (stock - floor) that",
        "async gains.",
    ]
