"""A cost plan as text."""

from __future__ import annotations

from graph_opt.reporting.cost import CostPlan, StepCost, UnknownCost
from graph_opt.reporting.cost_text import step_rows

BEFORE = StepCost(ops=100, rows=40.0, row_bytes=4000.0, calls=20)
AFTER = StepCost(ops=25, rows=10.0, row_bytes=1000.0, calls=5)


def removed(plan: CostPlan) -> list[str]:
    return [row[-1] for row in step_rows(plan)[1:]]


def test_shares_that_a_rewrite_removes() -> None:
    assert removed(CostPlan(("train",), 8, BEFORE, AFTER)) == ["75 %"] * 4


def test_no_share_is_told_of_sums_of_which_a_part_is_missing() -> None:
    """What is not known after the rewrite would count as removed."""
    unknown = (UnknownCost("table", "its shape", "--batch"),)
    plan = CostPlan(("train",), 8, BEFORE, AFTER, unknown=unknown)
    assert removed(plan) == ["75 %", "?", "?", "75 %"]
