"""The one line that says what came of a session."""

from __future__ import annotations

from typing import Optional, Tuple

import pytest

from graph_opt.reporting.outcomes import LEFT, MOVED, LookupOutcome, StageReport
from graph_opt.reporting.report import Report
from graph_opt.reporting.summary import summary


def lookup(name: str, stage: str = "ahead", most_missed: Optional[int] = None) -> LookupOutcome:
    outcome = MOVED if stage else LEFT
    return LookupOutcome(
        name, "api", (name,), None, name + ":0", "", outcome, stage, most_missed=most_missed
    )


@pytest.mark.parametrize(
    "missed, told",
    [
        ((0, 0), "2 of 3 lookups run ahead of the step with exact rows"),
        ((0, 3), "2 of 3 lookups run ahead of the step, 1 of them with exact rows"),
        ((1, 3), "2 of 3 lookups run ahead of the step, 1 left as it is"),
    ],
)
def test_exact_rows_are_told(missed: Tuple[int, int], told: str) -> None:
    moved = [lookup(name, most_missed=most) for name, most in zip("ab", missed)]
    assert told in summary(Report(lookups=(*moved, lookup("c", stage=""))))


def test_calls_of_python_ahead_are_told() -> None:
    stage = StageReport("ahead", "source", "", False, 3, (), python_functions=1)
    told = summary(Report(lookups=(lookup("a"),), stages=(stage,)))
    assert told == "1 of 1 lookup run ahead of the step, 1 Python function called ahead, too"
