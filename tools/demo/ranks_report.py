"""The report of `make demo-horovod`: how fast each way is, what it sends, and what it learned."""

from __future__ import annotations

import statistics
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tools.bench.collectives.figures import Times
from tools.bench.collectives.modes import DESCRIPTIONS, HOROVOD
from tools.bench.collectives.settings import Setting
from tools.bench.collectives.traffic import all_to_alls
from tools.bench.machine import cores
from tools.bench.turns import ratios
from tools.bench.workloads.scoring import Score

_LABEL = 16
_KILO = 1000.0


class Outcome(NamedTuple):
    """What the ranks came to.

    Attributes:
      setting: what they were told to do.
      found: what each rank wrote.
      times: seconds a step.
      scores: of what they learned, by mode.
    """

    setting: Setting
    found: Sequence[Dict[str, Any]]
    times: Times
    scores: Dict[str, Score]


def report(outcome: Outcome) -> str:
    """The whole report as text."""
    import horovod

    setting, tables = outcome.setting, outcome.setting.tables
    last = setting.modes[-1]
    rows = outcome.scores[last].rows
    lines = [
        "",
        f"DLRM on {len(outcome.found)} ranks: {tables.number} tables of {tables.rows} x "
        f"{tables.width}, batch {setting.batch} on each rank, {setting.optimizer}",
        f"TensorFlow {tf.version.VERSION}, Horovod {horovod.__version__} on {cores()} cores",
        f"medians of {setting.rounds} turns of {setting.steps} steps; {rows} held-out rows",
        "",
        *(f"{mode + ':':<{_LABEL}}{DESCRIPTIONS[mode]}" for mode in setting.modes),
        "",
        f"What graph_opt found and did ({last})",
        *(f"  {line}" for line in outcome.found[0]["modes"][last]["report"].splitlines()),
    ]
    for title, value in TABLES:
        lines += ["", title]
        lines += [f"  {mode:<{_LABEL}}{value(outcome, mode)}" for mode in setting.modes]
    return "\n".join([*lines, ""])


def _rate(outcome: Outcome, mode: str) -> str:
    runs = outcome.times.wall[mode]
    rates = sorted(1.0 / each for each in runs)
    quotient = statistics.median(ratios(outcome.times.wall[HOROVOD], runs))
    rate = statistics.median(rates)
    return f"{rate:.1f}  ({rates[0]:.1f} to {rates[-1]:.1f})  {quotient:.2f}x"


def _cpu(outcome: Outcome, mode: str) -> str:
    return f"{statistics.median(outcome.times.cpu[mode]) * _KILO:.1f} ms"


def _messages(outcome: Outcome, mode: str) -> str:
    first = outcome.found[0]["modes"][mode]
    if "traffic" not in first:
        return f"{all_to_alls(first['collectives'])}"
    sent = statistics.mean(each["modes"][mode]["traffic"]["table_bytes"] for each in outcome.found)
    return f"{first['traffic']['messages']}, {sent / _KILO:.0f} kB"


def _score(outcome: Outcome, mode: str) -> str:
    return f"{outcome.scores[mode].auc:.4f}, {outcome.scores[mode].log_loss:.4f}"


# A table has a row for each mode.
TABLES: List[Tuple[str, Callable[[Outcome, str], str]]] = [
    ("Steps a second (lowest and highest turn), times horovod", _rate),
    ("CPU time a step, all ranks", _cpu),
    ("Messages a step for the tables, and what each rank sends in them", _messages),
    ("AUC, log loss", _score),
]
