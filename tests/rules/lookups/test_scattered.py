"""`scattered_embedding_column` of TF 1.15: whole, and with inner nodes read elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from graph_opt.graph.view import GraphView
from graph_opt.rules import find_lookups
from tests.releases.outcomes import TENSORFLOW_1
from tests.releases.read import read_graph
from tests.rules.search import outputs


def nodes_of(graph_def: Any, op: str) -> Any:
    return [node for node in graph_def.node if node.op == op]


@pytest.mark.parametrize("name", ["contrib_scattered.ref", "contrib_scattered.resource"])
def test_the_table_has_rank_one_and_ids_are_the_strings(name: str) -> None:
    view = GraphView(read_graph(TENSORFLOW_1, name))
    lookup = find_lookups(view).lookups[0]
    assert lookup.tables[0].shape == (1000,)
    assert view.op(lookup.ids[0].node) == "SparseFillEmptyRows"


def test_rows_that_are_also_read_elsewhere_end_the_lookup() -> None:
    graph_def = read_graph(TENSORFLOW_1, "contrib_scattered.ref")
    pooled = nodes_of(graph_def, "SparseSegmentMean")[0]
    rows = GraphView(graph_def).inputs(pooled.name)[0]
    graph_def.node.add(name="reader", op="Relu", input=[rows.node])
    view = GraphView(graph_def)
    gathered = str(view.inputs(rows.node)[0])
    assert outputs(find_lookups(view)) == [("tf.nn.embedding_lookup", gathered)]


def test_places_hashed_from_something_else_are_left_uncombined() -> None:
    graph_def = read_graph(TENSORFLOW_1, "contrib_scattered.ref")
    hashing = nodes_of(graph_def, "SparseFeatureCrossV2")[0]
    graph_def.node.add(name="other", op="Placeholder")
    for slot, text in enumerate(hashing.input):
        if "Reshape" in text:
            hashing.input[slot] = "other"
    lookup = find_lookups(GraphView(graph_def)).lookups[0]
    assert (lookup.api, lookup.combiner) == ("tf.nn.embedding_lookup", None)
