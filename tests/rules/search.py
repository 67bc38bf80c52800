"""Shared by the tests of this room: searching a graph, and comparing what was found."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.graph.view import GraphView
from graph_opt.rules import Lookup, LookupSearch, find_lookups
from tests.rules.lookup_models import Expected


def search(graph: Optional[Any] = None) -> LookupSearch:
    """The lookups of a graph, by default of the one that a test is building."""
    return find_lookups(GraphView(running_graph_def(graph)))


def said(lookup: Lookup) -> Expected:
    """What a search found out about a lookup, in the terms of the models."""
    return Expected(
        api=lookup.api,
        tables=tuple(table.name for table in lookup.tables),
        output=str(lookup.output),
        combiner=lookup.combiner,
        weighted=lookup.weighted,
        partition_strategy=lookup.partition_strategy,
        max_norm=lookup.max_norm,
        is_resource=lookup.tables[0].is_resource,
    )


def outputs(found: LookupSearch) -> List[Tuple[str, str]]:
    """(api, output's name) of each lookup."""
    return [(lookup.api, str(lookup.output)) for lookup in found.lookups]


def codes(found: LookupSearch) -> List[Tuple[str, str]]:
    """(code, node) of each refusal."""
    return [(refusal.code, refusal.node) for refusal in found.refusals]
