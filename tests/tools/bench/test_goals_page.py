"""The pages of benchmarks say which goals are missed, as the JSON files have it."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench import goals_page
from tools.bench.publish import PAGES, PUBLISHED, with_tables
from tools.bench.records import Goal, Outcome, Record, read

_OF_TRAINING = [goals_page.training_rows, goals_page.cluster_rows, goals_page.exact_rows]


def record(figure: str, workload: str, mode: str, value: float, **params: Any) -> Record:
    runs = (value - 0.5, value, value + 0.5)
    return Record(figure, workload, mode, params, value, runs=runs, goal=Goal(">=", 1.0))


@pytest.mark.parametrize(
    ("mode", "params", "name", "table"),
    [
        ("async", {}, "wide, in the process, run ahead, not fused", 0),
        ("both", {"delay_ms": 3.0}, "wide, on a server 3 ms away, fused and ahead", 0),
        ("pipelined", {"delay_ms": 1.0}, "wide, on a server 1 ms away, pipelined", 1),
        (
            "both",
            {"delay_ms": 1.0, "workers": 2},
            "wide, on a server 1 ms away, 2 workers, fused and ahead",
            1,
        ),
        ("exact", {}, "wide, in the process, exact", 2),
        ("both", {"zipf": 0.0}, "wide, in the process, uniform ids, fused and ahead", 2),
    ],
)
def test_a_missed_goal_is_a_row_of_one_table_with_what_was_reached(
    mode: str, params: Any, name: str, table: int
) -> None:
    outcome = Outcome((record("ratio_to_stock", "wide", mode, 0.75, **params),))
    tables = [rows(outcome) for rows in _OF_TRAINING]
    assert tables.pop(table) == [
        "| {} | **0.75** (0.25 to 1.25) times as fast as TensorFlow alone | ≥ 1 |".format(name)
    ]
    assert tables == [["| none |  |  |"]] * 2


def test_models_stand_in_the_order_of_the_other_tables() -> None:
    outcome = Outcome(
        tuple(record("ratio_to_horovod", model, "both", 0.9) for model in ("dlrm", "wide"))
    )
    lines = goals_page.ranks_rows(outcome)
    assert [line.split(",")[0] for line in lines] == ["| wide", "| DLRM"]


def test_goals_that_are_met_are_not_listed() -> None:
    assert goals_page.adam_rows(Outcome((record("ratio_to_lazy", "wide", "deferred", 1.0),))) == [
        "| none |  |  |"
    ]


@pytest.mark.parametrize(
    ("bench", "tables"),
    [
        ("train", _OF_TRAINING),
        ("collectives", [goals_page.ranks_rows]),
        ("adam", [goals_page.adam_rows]),
    ],
)
def test_every_goal_of_these_benchmarks_can_be_told(bench: str, tables: Any) -> None:
    outcome = read(PUBLISHED / (bench + ".json"))
    goals = [_missing(each) for each in outcome.records if each.goal is not None]
    missed = Outcome(tuple(goals))
    assert goals and sum(len(rows(missed)) for rows in tables) == len(goals)


def _missing(each: Record) -> Record:
    assert each.goal is not None
    value = -1.0 if each.goal.op == ">=" else each.goal.value + 1.0
    return Record(each.figure, each.workload, each.mode, each.params, value, goal=each.goal)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_of_the_pages_are_what_the_json_files_say(page: Any) -> None:
    text = page.read_text("utf-8")
    assert with_tables(text) == text, "make figures writes it anew"
