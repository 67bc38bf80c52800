"""What docs/ shows of training on parameter servers follows from train.json."""

from __future__ import annotations

from typing import Iterator

from tools.bench.charts import svg
from tools.bench.records import Outcome, Record
from tools.bench.training import cluster_page
from tools.bench.training.cluster_chart import cluster_chart, floor_chart
from tools.bench.training.contests import ON_SERVER, TWO_WORKERS
from tools.bench.training.sessions import BOTH, PIPELINED, RETURNED, STOCK

CLUSTERS = (*ON_SERVER.scenarios, *TWO_WORKERS.scenarios)
SPEEDS = {STOCK: 1.0, BOTH: 2.0, RETURNED: 2.25, PIPELINED: 2.5}


def records() -> Iterator[Record]:
    for scenario in CLUSTERS:
        for mode, speed in SPEEDS.items():
            where = (scenario.workload, mode, scenario.params)
            rate = speed * 40.0 / (1.0 + (scenario.delay_ms or 0.0))
            yield Record("steps_per_s", *where, value=scenario.workers * rate, unit="1/s")
            if mode != STOCK:
                yield Record("ratio_to_stock", *where, value=speed)
                yield Record("floor_s_per_step", *where, value=0.8 / rate)
            if scenario.delay_ms == 1.0:
                params = {"servers": scenario.servers}
                yield Record("calls_per_step", scenario.workload, mode, params, 80.0 / speed)
                yield Record("bytes_per_step", scenario.workload, mode, params, 3e6)


def test_the_tables_have_a_row_for_each_scenario() -> None:
    outcome = Outcome(tuple(records()))
    rows, sent = cluster_page.rows(outcome), cluster_page.sent_rows(outcome)
    assert len(rows) == len(CLUSTERS)
    assert rows[0] == "| wide | 1 + 1 | 0 | **2.00** | **2.25** | **2.50** |"
    assert rows[-1].startswith("| DLRM | 2 + 2 | 1 | **2.00** |")
    assert sent[0] == (
        "| wide | 1 + 1 | 80 calls, 3 MB | 40 calls, 3 MB | 36 calls, 3 MB | 32 calls, 3 MB |"
    )
    lines = (*cluster_page.HEAD, *rows, *cluster_page.SENT_HEAD, *sent)
    assert {line.count("|") for line in lines} == {7}


def test_the_charts_are_drawn() -> None:
    outcome = Outcome(tuple(records()))
    drawn = svg(cluster_chart(outcome))
    assert "two workers, two servers" in drawn and "and dense layers pipelined" in drawn
    assert "what the machine allows" in svg(floor_chart(outcome))
