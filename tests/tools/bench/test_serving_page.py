"""The tables of docs/benchmarks-serving.md."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

from tools.bench.charts import svg
from tools.bench.records import Outcome, Record
from tools.bench.serving import page


def record(
    figure: str, value: float, mode: str, floor: Optional[float] = None, **params: Any
) -> Record:
    return Record(figure, "wide", mode, params, value, floor=floor)


def test_a_row_for_each_way_of_exporting() -> None:
    one = {"rows": 32, "clients": 1}
    records = [
        record("latency_p50_ms", 9.0, "stock", client="python", **one),
        record("latency_p50_ms", 6.0, "exported", client="python", **one),
        record("p50_over_stock", 1.5, "exported", client="python", **one),
        record("latency_p50_ms", 5.0, "session", client="python", **one),
        record("latency_p50_ms", 8.0, "stock", client="c", **one),
        record("latency_p50_ms", 4.0, "exported", 1.5, client="c", **one),
        record("p50_over_stock", 2.0, "exported", client="c", **one),
        record("latency_p50_ms", 2.0, "int8", 1.5, client="c", **one),
        record("p50_over_stock", 4.0, "int8", client="c", **one),
        record("latency_p50_ms", 9.0, "int8", rows=32, clients=2, client="c"),
    ]
    outcome = Outcome(tuple(records))
    assert page.rows(outcome) == [
        "| wide | 32 | 8.00 → 4.00 ms | **2.00** | 1.50 | 1.50 ms |",
        "| wide, `--table-dtype int8` | 32 | 8.00 → 2.00 ms | **4.00** |  | 1.50 ms |",
    ]
    assert "wide, --table-dtype int8, 32 rows" in svg(page.serving_chart(outcome))


def test_frozen_graphs_have_a_table_of_their_own() -> None:
    one = {"rows": 512, "clients": 1}
    records = [
        record("latency_p50_ms", 8.0, "stock", client="c", **one),
        record("latency_p50_ms", 4.0, "exported", client="c", **one),
        record("p50_over_stock", 2.0, "exported", client="c", **one),
        record("p50_over_stock", 9.0, "exported", client="python", **one),
        record("p50_over_stock", 1.25, "session", client="python", **one),
    ]
    frozen = Outcome(tuple(dataclasses.replace(each, workload="wide_frozen") for each in records))
    assert page.rows(frozen) == []
    assert page.frozen_rows(frozen) == ["| wide | 512 | 8.00 → 4.00 ms | **2.00** | **1.25** |"]
    assert page.frozen_rows(Outcome(tuple(records))) == []
    assert {line.count("|") for line in page.FROZEN_HEAD} == {6}


def test_figures_of_python_stand_where_there_are_no_others() -> None:
    one = {"rows": 32, "clients": 1}
    records = [
        record("latency_p50_ms", 8.0, "stock", **one),
        record("latency_p50_ms", 4.0, "exported", 1.5, **one),
        record("p50_over_stock", 2.0, "exported", **one),
    ]
    assert page.rows(Outcome(tuple(records))) == [
        "| wide | 32 | 8.00 → 4.00 ms | **2.00** |  | 1.50 ms |"
    ]


def test_memory_of_one_server_and_of_two() -> None:
    records = [
        record("memory_mb", 500.0, "exported", servers=1),
        record("memory_mb", 1000.0, "exported", servers=2),
        record("memory_mb", 510.0, "mapped", servers=1),
        record("tables_mb", 166.4, "mapped", servers=1),
        record("memory_mb", 690.0, "mapped", servers=2),
        record("tables_mb", 166.5, "mapped", servers=2),
        record("tables_two_over_one", 1.001, "mapped"),
    ]
    assert page.memory_rows(Outcome(tuple(records))) == [
        "| variables | 1 | 500 MB |  |  |",
        "| variables | 2 | 1,000 MB |  |  |",
        "| mapped, `--map-tables` | 1 | 510 MB | 166 MB |  |",
        "| mapped, `--map-tables` | 2 | 690 MB | 166 MB | **1.00** |",
    ]
    assert {line.count("|") for line in page.MEMORY_HEAD} == {6}
