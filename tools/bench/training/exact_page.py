"""What docs/benchmarks-servers.md shows of exact rows, from train.json."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Tuple

from tools.bench.pages import gain, head, place, row, words
from tools.bench.ratio_chart import Bar, ratio_chart
from tools.bench.records import Outcome, Record
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.training.sessions import BOTH, EXACT, FUSED, STOCK
from tools.bench.workloads.wide.data import ZIPF_EXPONENT

HEAD = head("model | its tables | ids | fused | and ahead | and exact")
CAUSES_HEAD = head(
    "model | its tables | ids | ids written since | share of the gain | the machine allows"
)
_MODES = (FUSED, BOTH, EXACT)


def rows(outcome: Outcome) -> List[str]:
    """How many times as fast as TensorFlow alone, in the order of `scenarios`."""
    return [
        row(*each.words, *(gain(each.find(outcome, "ratio_to_stock", mode)) for mode in _MODES))
        for each in scenarios(outcome)
    ]


def causes_rows(outcome: Outcome) -> List[str]:
    """What that depends on, in the same order."""
    return [
        row(
            *each.words,
            words("{:.2f}", each.find(outcome, "conflicting_rows_share", EXACT)),
            words("{:.2f}", each.find(outcome, "share_of_async_gain", EXACT)),
            _at_most(outcome, each),
        )
        for each in scenarios(outcome)
    ]


def exact_chart(outcome: Outcome) -> Any:
    """Exact rows beside fused ones; None where they were not measured."""
    bars = [
        Bar(", ".join(each.words), ratio)
        for each in scenarios(outcome)
        for ratio in [each.find(outcome, "ratio_to_fused", EXACT)]
        if ratio is not None
    ]
    said = "steps a second with exact rows, over fused lookups in the step (more is better)"
    return ratio_chart(bars, said) if bars else None


class Shown(NamedTuple):
    """A scenario of the tables."""

    workload: str
    delay_ms: Optional[float]
    zipf: Optional[float]

    @property
    def words(self) -> Tuple[str, str, str]:
        """The model, where its tables are, and how its ids are distributed."""
        skew = ZIPF_EXPONENT if self.zipf is None else self.zipf
        ids = "Zipf {:g}".format(skew) if skew else "uniform"
        return WORKLOADS[self.workload], place(self.delay_ms), ids

    def find(self, outcome: Outcome, figure: str, mode: str) -> Optional[Record]:
        """A figure of a mode."""
        where = dict(delay_ms=self.delay_ms, zipf=self.zipf, workers=None)
        return outcome.find(figure, self.workload, mode, **where)


def scenarios(outcome: Outcome) -> List[Shown]:
    """In the order they were measured, models in that of the charts."""
    found = dict.fromkeys(
        Shown(each.workload, each.params.get("delay_ms"), each.params.get("zipf"))
        for each in outcome.records
        if each.mode == EXACT and "servers" not in each.params
    )
    order = list(WORKLOADS)
    return sorted(found, key=lambda scenario: order.index(scenario.workload))


def _at_most(outcome: Outcome, shown: Shown) -> str:
    """What the machine allows the lookups without exact rows, beside TensorFlow alone."""
    floor = shown.find(outcome, "floor_s_per_step", EXACT)
    stock = shown.find(outcome, "steps_per_s", STOCK)
    if floor is None or stock is None:
        return ""
    return "{:.2g}".format(1.0 / (floor.value * stock.value))
