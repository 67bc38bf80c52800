"""A rewritten live graph has the edges that its user built, whatever passes have moved."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import pytest

import graph_opt
from graph_opt.export.built_edges import BuiltEdges
from graph_opt.graph.operations import Edges
from tests.session.small_model import async_config, small_model


def edges_of(operations: List[Any], edges: Edges) -> Dict[str, Tuple[List[str], List[str]]]:
    return {
        operation.name: (
            [tensor.name for tensor in edges.inputs(operation)],
            sorted(source.name for source in edges.controls(operation)),
        )
        for operation in operations
    }


@pytest.mark.parametrize("group, ahead", [(True, False), (False, True), (True, True)])
def test_all_edges_are_those_before_the_rewrite(group: bool, ahead: bool) -> None:
    graph = small_model(learning_rate=0.1).loss.graph
    built = graph.get_operations()
    before = edges_of(built, Edges())
    config = async_config()
    config.graph_options.optimizer_options.do_group_embedding = group
    config.graph_options.optimizer_options.do_async_embedding = ahead
    graph_opt.optimize_graph(graph, config)
    found = BuiltEdges(graph)
    assert edges_of(built, Edges()) != before
    assert edges_of(built, found) == before
    assert all(found.has(operation) for operation in built)
    assert not any(found.has(one) for one in graph.get_operations()[len(built) :])
