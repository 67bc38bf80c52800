"""The JSON file and the table of a benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.bench import records
from tools.bench.foreign_load import RoundLoad
from tools.bench.records import Absent, Goal, Outcome, Record, from_runs
from tools.bench.source import source

RATIO = from_runs(
    "ratio_to_stock", "wide", "async", {"batch": 512}, [1.5, 1.25, 1.75], goal=Goal(">=", 1.3)
)
RATE = from_runs("steps_per_s", "wide", "stock", {"batch": 512}, [41.0], "1/s", floor=80.0)
MISSING = Absent("ratio_to_stock", "dlrm", "async", {"delay_ms": 3}, "the server did not start")


def test_the_value_is_the_median_of_the_runs() -> None:
    assert RATIO.value == 1.5
    assert RATIO.runs == (1.5, 1.25, 1.75)


@pytest.mark.parametrize(
    "goal, value, is_met",
    [(Goal(">=", 1.0), 1.0, True), (Goal(">=", 1.0), 0.99, False), (Goal("<=", 3.0), 3.1, False)],
)
def test_a_goal_is_met_or_missed(goal: Goal, value: float, is_met: bool) -> None:
    assert goal.is_met(value) is is_met
    assert Record("f", "w", "m", {}, value, goal=goal).is_met is is_met


def test_a_record_has_only_the_fields_it_has_something_for() -> None:
    assert RATIO.to_dict() == {
        "figure": "ratio_to_stock",
        "workload": "wide",
        "mode": "async",
        "params": {"batch": 512},
        "value": 1.5,
        "runs": [1.5, 1.25, 1.75],
        "goal": {"op": ">=", "value": 1.3},
    }
    assert RATE.to_dict()["unit"] == "1/s"
    assert RATE.to_dict()["floor"] == 80.0


def test_an_outcome_survives_json() -> None:
    outcome = Outcome((RATIO, RATE), (MISSING,))
    assert Outcome.from_dict(json.loads(json.dumps(outcome.to_dict()))) == outcome


def test_the_file_names_bench_and_machine(tmp_path: Path) -> None:
    path = tmp_path / "new" / "async.json"
    records.write(path, "async", Outcome((RATIO,)))
    content = json.loads(path.read_text(encoding="utf-8"))
    assert set(content) == {"bench", "machine", "records"}
    assert content["bench"] == "async"
    assert set(content["machine"]) == {"cores", "cpu", "memory_gib", "tensorflow"}
    assert content["machine"]["cores"] >= 1


def test_the_file_tells_what_was_measured_and_who_else_used_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "async.json"
    records.write(path, "async", Outcome((RATIO,)), [RoundLoad(0.5, 0.0, 2)], source())
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["foreign_load"] == [{"before": 0.5, "during": 0.0, "attempts": 2}]
    assert content.get("source", {}) == source()
    assert records.read(path) == Outcome((RATIO,))


def test_the_table_shows_goals_and_says_what_is_absent() -> None:
    missed = Record("ratio_to_stock", "dlrm", "async", {}, 0.5, goal=Goal(">=", 0.97))
    text = records.table(Outcome((RATIO, missed), (MISSING,)))
    lines = text.splitlines()
    assert lines[1].split() == (
        "ratio_to_stock wide async batch=512 1.5 16.7 % >= 1.3, met".split()
    )
    assert lines[2].endswith(">= 0.97, MISSED")
    assert lines[3] == "no ratio_to_stock of dlrm async delay_ms=3: the server did not start"
