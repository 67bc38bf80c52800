"""Lookups are found in the graphs of each release, each with what the model says of it."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest

from graph_opt.graph.view import GraphView
from graph_opt.rules import find_lookups
from tests.releases.archives import expected, names
from tests.releases.outcomes import TENSORFLOW_1, TOTALS
from tests.releases.read import read_graph
from tests.rules.lookup_models import Expected
from tests.rules.search import said


def in_order(facts: List[Expected]) -> List[Expected]:
    return sorted(facts, key=lambda fact: (fact.output, fact.tables))


def found(graph_def: Any) -> Tuple[List[Expected], Tuple[Any, ...]]:
    search = find_lookups(GraphView(graph_def))
    return in_order(list(map(said, search.lookups))), search.refusals


@pytest.mark.parametrize("release", TOTALS)
def test_finds_the_lookups_of_a_release(release: str) -> None:
    search = {name: found(read_graph(release, name)) for name in names(release)}
    assert search == {name: (in_order(expected(release, name)), ()) for name in names(release)}
    assert sum(len(lookups) for lookups, _ in search.values()) == TOTALS[release].lookups


def test_contrib_reads_resource_variables_whole_and_is_still_a_lookup() -> None:
    view = GraphView(read_graph(TENSORFLOW_1, "contrib_safe.resource"))
    lookup = find_lookups(view).lookups[0]
    assert view.op(lookup.gathers[0]) == "GatherV2"
    assert view.op(view.inputs(lookup.gathers[0])[0].node) == "ReadVariableOp"
    assert lookup.tables[0].op == "VarHandleOp"
