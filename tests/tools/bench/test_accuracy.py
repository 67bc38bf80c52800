"""What rows that miss updates cost: figures and table follow from the trainings."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple

import pytest

from tools.bench.accuracy import page
from tools.bench.accuracy.cases import Way
from tools.bench.accuracy.figures import Trained, outcome_of
from tools.bench.training.sessions import BOTH, EXACT, STOCK
from tools.bench.workloads.scoring import Score


class Table(NamedTuple):
    """What a report tells of a table."""

    missed: Tuple[int, ...]
    relative_l2: float
    uncounted: str = ""


def trainings(aucs: List[float], *tables: Table) -> List[Trained]:
    return [Trained(300, Score(auc, 0.5, 1000), tables) for auc in aucs]


FOUND: Dict[Way, List[Trained]] = {
    Way(STOCK): trainings([0.74, 0.75, 0.73]),
    Way(BOTH, 8): trainings(
        [0.738, 0.751, 0.727],
        Table((70, 20, 0, 10), 0.02),
        Table((50, 0, 0, 0, 0, 0, 0, 0, 0, 50), 0.04),
        Table((), 0.5, "its updates are unknown"),
    ),
    Way(EXACT, 8): trainings([0.74, 0.75, 0.73], Table((100,), 0.0)),
}


def test_what_a_way_changes_is_told_apart_from_what_a_seed_does() -> None:
    outcome = outcome_of("movielens", FOUND)
    assert outcome.value("auc", "movielens", BOTH) == 0.738
    apart = next(each for each in outcome.records if each.figure == "auc_beside_stock")
    assert apart.runs == pytest.approx((-0.002, 0.001, -0.003))
    assert apart.value == pytest.approx(-0.002)
    assert outcome.value("auc_beside_stock", "movielens", STOCK) is None
    assert outcome.value("auc_beside_stock", "movielens", EXACT) == 0


def test_rows_of_all_tables_are_counted_together() -> None:
    outcome = outcome_of("movielens", FOUND)
    shares = {
        each.params["first"]: each.value
        for each in outcome.records
        if (each.figure, each.mode) == ("rows_missing", BOTH)
    }
    assert shares == pytest.approx({0: 0.6, 1: 0.1, 2: 0.05, 4: 0, 9: 0.25, 33: 0})
    assert outcome.value("missed_updates", "movielens", BOTH) == pytest.approx(2.5)
    assert outcome.value("relative_l2", "movielens", BOTH) == pytest.approx(0.03)


def test_the_table_has_a_row_for_each_way() -> None:
    stock, both, exact = page.rows(outcome_of("movielens", FOUND))
    assert stock == "| MovieLens 100K | TensorFlow alone |  | 0.7400 (0.7300 to 0.7500) |  |"
    assert both == (
        "| MovieLens 100K | run ahead | 8 | 0.7380 (0.7270 to 0.7510) "
        "| -0.0020 (-0.0030 to +0.0010) |"
    )
    assert exact.startswith("| MovieLens 100K | run ahead, exact | 8 |")
    assert {line.count("|") for line in (*page.HEAD, stock, both, exact)} == {6}


def test_another_table_says_how_old_rows_were() -> None:
    rows = page.missed_rows(outcome_of("movielens", FOUND))
    assert rows == ["| MovieLens 100K | 8 | 60.0% | 25.0% | 2.50 | 0.03 |"]
    assert {line.count("|") for line in (*page.MISSED_HEAD, *rows)} == {7}
