"""The tables of docs/scaling.md, from scaling.json."""

from __future__ import annotations

from typing import Iterable, List

from tools.bench.collectives.modes import LOCAL
from tools.bench.pages import head, row
from tools.bench.records import Outcome, Record
from tools.bench.scaling.chart import MODES, points
from tools.bench.scaling.load import MOD, REPLICATED

HEAD = head("where rows are | keys | 2 ranks | 8 | 64 | 512")
MEASURED_HEAD = head(
    "tables | ranks | MB that a rank sends: computed | measured | "
    "ms of its step: computed | CPU time measured | without messages"
)
MESSAGES_HEAD = head("ranks | ms that a small message takes | ms of CPU time of the first rank")
_SHOWN = (2, 8, 64, 512)
_IDS = {"hashed": "hashed", "by_frequency": "by frequency"}


def rows(outcome: Outcome) -> List[str]:
    """A row for each placement and numbering of keys: megabytes through the busiest rank."""
    return _rows(outcome, "simulated_bytes", 1e-6, MODES)


def time_rows(outcome: Outcome) -> List[str]:
    """The same with the milliseconds of a step."""
    return _rows(outcome, "simulated_s_per_step", 1e3, MODES)


def uneven_rows(outcome: Outcome) -> List[str]:
    """The same with the rows asked of the busiest rank over the mean, where tables are divided."""
    divided = [mode for mode in MODES if mode != REPLICATED]
    return _rows(outcome, "unevenness", 1, divided)


def measured_rows(outcome: Outcome) -> List[str]:
    """What few ranks were measured with, beside what is computed for them."""
    sent = [each for each in outcome.records if each.figure == "bytes_per_step"]
    sent.sort(key=lambda each: (each.mode != MOD, each.params["ranks"]))
    return [_measured_row(outcome, each) for each in sent]


def _measured_row(outcome: Outcome, sent: Record) -> str:
    def cell(figure: str, mode: str, factor: float, **ids: str) -> str:
        value = outcome.value(figure, sent.workload, mode, **sent.params, **ids)
        return "" if value is None else _three_digits(value * factor)

    return row(
        MODES[sent.mode][0],
        sent.params["ranks"],
        cell("simulated_bytes", sent.mode, 1e-6, ids="hashed"),
        cell("bytes_per_step", sent.mode, 1e-6),
        cell("simulated_s_per_step", sent.mode, 1e3, ids="hashed"),
        cell("cpu_s_per_step", sent.mode, 1e3),
        cell("cpu_s_per_step", LOCAL, 1e3),
    )


def message_rows(outcome: Outcome) -> List[str]:
    """What a message of few bytes takes, by the number of ranks."""
    seconds = {
        figure: [each for each in outcome.records if each.figure == figure]
        for figure in ("message_s", "message_cpu_s")
    }
    return [
        row(taken.params["ranks"], _three_digits(taken.value * 1e3), _three_digits(cpu.value * 1e3))
        for taken, cpu in zip(seconds["message_s"], seconds["message_cpu_s"])
    ]


def _rows(outcome: Outcome, figure: str, factor: float, modes: Iterable[str]) -> List[str]:
    def cells(mode: str, ids: str) -> List[str]:
        values = dict(points(outcome, figure, mode, ids))
        return [_three_digits(values[ranks] * factor) for ranks in _SHOWN]

    return [row(MODES[mode][0], _IDS[ids], *cells(mode, ids)) for mode in modes for ids in _IDS]


def _three_digits(value: float) -> str:
    """Three digits, or all before the point if they are more."""
    return ("{:,.0f}" if value >= 100 else "{:.3g}").format(value)
