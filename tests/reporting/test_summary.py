"""The one line that says what came of a session."""

from __future__ import annotations

from typing import Optional, Tuple

import pytest

from graph_opt.reporting.outcomes import (
    LEFT,
    MOVED,
    FusedLookup,
    LookupOutcome,
    StageReport,
)
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


@pytest.mark.parametrize(
    "groups, told",
    [
        ("aab", "2 of 3 lookups fused into 1 op, 1 in an op of its own"),
        ("aabc", "2 of 4 lookups fused into 1 op, 2 in an op each"),
        ("a", "1 of 1 lookup in an op of its own"),
        ("abc", "3 of 3 lookups in an op each"),
        ("aabb", "4 of 4 lookups fused into 2 ops"),
    ],
)
def test_a_lookup_alone_in_an_op_is_not_called_fused(groups: str, told: str) -> None:
    fused = [
        FusedLookup(str(number), "api", ("t",), None, "{}:0".format(number), group)
        for number, group in enumerate(groups)
    ]
    assert summary(Report(fused_lookups=tuple(fused))) == told


def test_an_op_of_the_model_with_several_lookups_is_fused() -> None:
    own = FusedLookup("g", "api", ("t",), None, "g:0", "g", count=3)
    told = summary(Report(fused_lookups=(own,)))
    assert told == "3 of 3 lookups fused into 1 op"
