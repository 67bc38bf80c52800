"""Charts show the figures they are drawn from, and docs/ shows those of its files."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import List
from xml.etree import ElementTree

import pytest

from tools.bench import charts, gains_page, publish, records
from tools.bench.adam import page
from tools.bench.charts import Case
from tools.bench.records import Outcome, Record

REPOSITORY = Path(__file__).resolve().parents[3]
SVG = "{http://www.w3.org/2000/svg}"


def record(figure: str, mode: str, value: float, workload: str = "wide", **params: float) -> Record:
    return Record(figure, workload, mode, params, value)


OUTCOME = Outcome(
    (
        record("steps_per_s", "stock", 20.0, delay_ms=1.0),
        record("steps_per_s", "both", 51.0, delay_ms=1.0),
        record("ratio_to_stock", "async", 1.25, delay_ms=1.0),
        record("ratio_to_stock", "both", 2.5, delay_ms=1.0),
        record("floor_s_per_step", "both", 0.0125, delay_ms=1.0),
        record("steps_per_s", "stock", 30.0),
        record("ratio_to_stock", "both", 1.5, workload="dlrm"),
    )
)


def words(svg: str) -> List[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg).iter(SVG + "text")]


def test_scenarios_come_with_the_nearest_tables_first() -> None:
    assert charts.cases(OUTCOME) == [Case("wide", None), Case("wide", 1.0), Case("dlrm", None)]


def test_the_best_is_stocks_step_over_the_floor() -> None:
    assert charts.ratio_at_best(OUTCOME, Case("wide", 1.0)) == pytest.approx(50.0 / 12.5)
    assert charts.ratio_at_best(OUTCOME, Case("wide", None)) is None


def test_a_chart_says_its_figures_in_text(tmp_path: Path) -> None:
    train, summary, *_ = charts.write("train", OUTCOME, tmp_path)
    shown = words(train.read_text("utf-8"))
    assert {"1.25", "2.50", "1.50"} <= set(shown)
    assert "what the machine allows" in shown
    assert {"2.50", "20 → 51 steps/s"} <= set(words(summary.read_text("utf-8")))


def test_a_chart_is_legible_on_dark_pages_and_the_same_each_time(tmp_path: Path) -> None:
    (once, *_), (again, *_) = (charts.write("train", OUTCOME, tmp_path) for _ in range(2))
    text = charts.svg(charts.train_chart(OUTCOME))
    assert once.read_text("utf-8") == again.read_text("utf-8") == text
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"<text [^>]*fill: #0", text)


def adam(workload: str, rows: int, stock: float, deferred: float, **place: float) -> List[Record]:
    params = dict(rows=rows, **place)
    return [
        record("steps_per_s", "stock", stock, workload, **params),
        record("steps_per_s", "deferred", deferred, workload, **params),
        record("ratio_to_stock", "deferred", deferred / stock, workload, **params),
        record("ratio_to_lazy", "deferred", 0.96, workload, **params),
    ]


def test_the_chart_of_adam_has_a_panel_for_each_model_and_place(tmp_path: Path) -> None:
    records = adam("dlrm", 20000, 35.0, 95.0) + adam("dlrm", 200000, 7.25, 91.0)
    records += adam("wide", 20000, 31.0, 140.0, delay_ms=1.0)
    (path,) = charts.write("adam", Outcome(tuple(records)), tmp_path)
    shown = words(path.read_text("utf-8"))
    assert {"35", "95", "7.25", "91", "31", "140", "20,000", "200,000"} <= set(shown)
    titles = {"DLRM, tables in the process", "wide, tables on a server 1 ms away"}
    assert titles <= set(shown)


def test_the_table_of_adam_has_a_row_for_each_scenario() -> None:
    records = adam("dlrm", 200000, 7.25, 91.0) + adam("wide", 20000, 31.0, 140.0, delay_ms=1.0)
    incomplete = adam("wide", 20000, 31.0, 140.0)[:2]
    assert page.rows(Outcome(tuple(records + incomplete))) == [
        "| DLRM | in the process | 200,000 | 91 steps/s | **12.6** | 0.96 |",
        "| wide, 40 columns | on a server 1 ms away | 20,000 | 140 steps/s | **4.52** | 0.96 |",
    ]


def test_a_benchmark_without_charts_writes_none(tmp_path: Path) -> None:
    assert charts.write("buffer", OUTCOME, tmp_path) == []


def test_what_docs_show_follows_from_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    text = publish.README.read_text("utf-8")
    assert publish.with_sentences(text) == text
    text = publish.CHOICE.read_text("utf-8")
    assert publish.with_gains(text) == text
    assert text.count("\n| ") == 1 + len(gains_page.GAINS)
    for path in publish.PUBLISHED.glob("*.json"):
        outcome = records.read(path)
        for name, chart in charts.CHARTS.get(path.stem, {}).items():
            shown = (publish.PUBLISHED / name).read_text("utf-8")
            assert words(shown) == words(charts.svg(chart(outcome)))


def test_the_readme_names_the_machine_of_its_chart() -> None:
    machine = json.loads((REPOSITORY / "docs/benchmarks/train.json").read_text("utf-8"))["machine"]
    said = " ".join((REPOSITORY / "README.md").read_text("utf-8").split())
    assert (
        "{cores} cores ({cpu}, {memory_gib} GiB, TensorFlow {tensorflow})".format(**machine) in said
    )


def test_the_sentence_on_adam_has_the_gain_of_each_size() -> None:
    machine = {"cores": 2, "cpu": "A CPU"}
    records = adam("dlrm", 20000, 30.0, 60.0) + adam("dlrm", 200000, 7.0, 80.5)
    records += adam("dlrm", 1000000, 1.0, 70.0) + adam("wide", 20000, 30.0, 60.0)
    assert page.sentence(Outcome(tuple(records)), machine) == (
        "With Adam on 2 cores (A CPU), DLRM trains **2** times as fast with 20,000 rows in each "
        "table, **12** times with 200,000, **70** times with 1,000,000."
    )
    with pytest.raises(ValueError, match="no figure of dlrm"):
        page.sentence(Outcome(()), machine)


def test_publishing_takes_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(str(REPOSITORY / "docs"), str(tmp_path / "docs"))
    shutil.copyfile(str(REPOSITORY / "README.md"), str(tmp_path / "README.md"))
    records.write(tmp_path / "measured" / "train.json", "train", OUTCOME)
    monkeypatch.chdir(tmp_path)
    assert publish.main(["--measured", "measured"]) == 0
    assert records.read(publish.PUBLISHED / "train.json") == OUTCOME
    text = publish.PAGES[0].read_text("utf-8")
    row = "| wide | on a server 1 ms away | 20 steps/s | 51 steps/s | **2.50** | 4.0 |"
    assert text.count(row) == 1
    summary = (publish.PUBLISHED / "summary.svg").read_text("utf-8")
    assert "20 → 51 steps/s" in words(summary)
