"""Lookups in graphs built by TensorFlow 1.15, including tf.contrib, are found like 2.15's."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.rules import find_lookups
from tests.rules.lookup_models import Expected
from tests.rules.search import said

FOLDER = Path(__file__).resolve().parent / "graphs"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
LARGEST_FILE = 100_000


@functools.lru_cache(maxsize=None)  # Parsing takes far longer than a copy does.
def _parsed(name: str) -> Any:
    graph_def = tf.GraphDef()
    text_format.Parse((FOLDER / (name + ".pbtxt")).read_text(), graph_def)
    return graph_def


def read_graph(name: str) -> Any:
    graph_def = tf.GraphDef()
    graph_def.CopyFrom(_parsed(name))
    return graph_def


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_finds_the_lookups_of_graphs_made_by_tensorflow_1(name: str) -> None:
    search = find_lookups(GraphView(read_graph(name)))
    facts = [Expected(**{**fact, "tables": tuple(fact["tables"])}) for fact in EXPECTED[name]]
    assert [said(lookup) for lookup in search.lookups] == facts
    assert search.refusals == ()


def test_every_graph_is_tested_and_small() -> None:
    files = sorted(FOLDER.glob("*.pbtxt"))
    assert [file.stem for file in files] == sorted(EXPECTED)
    assert max(file.stat().st_size for file in files) < LARGEST_FILE


def test_contrib_reads_resource_variables_whole_and_is_still_a_lookup() -> None:
    graph_def = read_graph("contrib_safe_resource")
    view = GraphView(graph_def)
    lookup = find_lookups(view).lookups[0]
    assert view.op(lookup.gathers[0]) == "GatherV2"
    assert view.op(view.inputs(lookup.gathers[0])[0].node) == "ReadVariableOp"
    assert lookup.tables[0].op == "VarHandleOp"
