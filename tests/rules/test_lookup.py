"""The data that a search returns: immutable, comparable, extended step by step."""

from __future__ import annotations

import dataclasses

import pytest

from graph_opt.graph.view import TensorRef
from graph_opt.rules import Lookup, Table

TABLE = Table("table", "VariableV2", 1, (10, 4), "", False)
LOOKUP = Lookup("tf.gather", (TABLE,), (TensorRef("ids", 0),), TensorRef("a", 0), ("a",), ("a",))


def test_extended_moves_the_output_and_keeps_each_node_once() -> None:
    grown = LOOKUP.extended("c", ("a", "b", "c"), api="tf.nn.embedding_lookup")
    assert (grown.output, grown.nodes) == (TensorRef("c", 0), ("a", "b", "c"))
    assert (grown.api, grown.tables, grown.gathers) == ("tf.nn.embedding_lookup", (TABLE,), ("a",))
    assert LOOKUP.output == TensorRef("a", 0)


def test_lookups_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        LOOKUP.api = "tf.gather_nd"  # type: ignore[misc]
