"""What more cores would change: the table of docs/scaling-cores.md."""

from __future__ import annotations

from typing import List, Sequence

from tools.bench.pages import gain, head, row, words
from tools.bench.records import Outcome, Record
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.training.sessions import BOTH, STOCK

HEAD = head("model | cores | TensorFlow alone | graph_opt | times as fast")


def rows(outcome: Outcome) -> List[str]:
    """A row for each model and number of cores, in the order they were computed."""
    return [
        row(
            WORKLOADS[each.workload],
            each.params["cores"],
            *_rates(outcome, each, (STOCK, BOTH)),
            gain(each),
        )
        for each in outcome.records
        if each.figure == "computed_ratio_to_stock"
    ]


def _rates(outcome: Outcome, ratio: Record, modes: Sequence[str]) -> List[str]:
    cores = ratio.params["cores"]
    found = (
        outcome.find("computed_steps_per_s", ratio.workload, mode, cores=cores) for mode in modes
    )
    return [words("{:.3g} steps/s", record) for record in found]
