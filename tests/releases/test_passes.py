"""The lookups of each release are fused and run ahead, or the reason is in `outcomes`."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import pytest

from graph_opt.inspect.shapes import add_shapes
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.reporting.report import Report
from tests.passes import fused_models
from tests.releases.archives import names
from tests.releases.outcomes import TOTALS, not_ahead, not_fused
from tests.releases.read import can_be_imported, read_graph

Outcome = Tuple[List[Tuple[str, ...]], List[str]]


def optimized(release: str, name: str) -> Any:
    graph_def = read_graph(release, name)
    add_shapes(graph_def)
    return optimize_graph_def(graph_def, fused_models.config(prefetch=True))


def outcome(report: Report) -> Outcome:
    """What was not fused, and what does not run ahead."""
    assert report.refusals == ()
    parts = [
        (lookup.gradient, lookup.update, *(refusal["code"] for refusal in lookup.refusals))
        for lookup in report.fused_lookups
        if not lookup.group or lookup.gradient != "fused" or lookup.refusals
    ]
    return parts, [lookup.refusal["code"] for lookup in report.lookups if lookup.refusal]


def expected(release: str, name: str) -> Outcome:
    fusion, motion = not_fused(release, name), not_ahead(name)
    # The update takes the gradient as TensorFlow writes it.
    return [("stock", "fused", fusion)] if fusion else [], [motion] if motion else []


# Lookups differ most between the oldest and the newest.
QUICK = (min(TOTALS), max(TOTALS))


@pytest.mark.parametrize(
    "release",
    [pytest.param(each, marks=[] if each in QUICK else [pytest.mark.slow]) for each in TOTALS],
)
def test_lookups_of_a_release_are_fused_and_run_ahead(release: str) -> None:
    reports: Dict[str, Report] = {}
    refused = []
    for name in names(release):
        result = optimized(release, name)
        reports[name] = result.report
        if not can_be_imported(result.graph_def) and can_be_imported(read_graph(release, name)):
            refused.append(name)
    assert {name: outcome(report) for name, report in reports.items()} == {
        name: expected(release, name) for name in names(release)
    }
    assert refused == []
    unknown = sum(bool(not_ahead(name)) for name in names(release))
    totals = TOTALS[release]
    assert sum(len(report.fused) for report in reports.values()) == totals.fused
    assert sum(len(report.moved) for report in reports.values()) == totals.lookups - unknown
