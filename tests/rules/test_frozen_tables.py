"""Constants are tables where nothing is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.graph.elided_values import ELIDED
from graph_opt.graph.view import GraphView
from graph_opt.rules import Table, find_lookups
from graph_opt.rules.frozen_tables import is_frozen_table, trains_nothing
from tests.rules.lookup_values import all_inputs, shaped_view
from tests.rules.search import codes, search

FLOAT32 = 1


def ids() -> Any:
    return tf.placeholder(tf.int64, [None], name="ids")


def constant(*shape: int, dtype: Any = tf.float32) -> Any:
    return tf.constant(np.ones(shape), dtype, name="table")


@pytest.mark.parametrize("reads", [0, 1, 2])
def test_a_constant_is_the_table_of_a_frozen_graph(reads: int) -> None:
    table = constant(10, 4)
    for _ in range(reads):
        table = tf.identity(table)
    tf.nn.embedding_lookup(table, ids())
    (lookup,) = search().lookups
    assert lookup.tables == (Table("table", "Const", FLOAT32, (10, 4), "", False),)
    ((_, inputs),) = all_inputs(shaped_view())
    assert str(inputs.ids) == "ids:0"


def test_parts_of_a_table_are_constants() -> None:
    parts = [tf.constant(np.ones([rows, 2]), tf.float32, name="part") for rows in (4, 3, 3)]
    tf.nn.embedding_lookup(parts, ids())
    (lookup,) = search().lookups
    found = [(one.name, one.shape, one.partitions) for one in lookup.tables]
    assert found == [("part", (4, 2), 3), ("part_1", (3, 2), 3), ("part_2", (3, 2), 3)]


def test_a_table_without_its_values_has_a_shape() -> None:
    tf.nn.embedding_lookup(constant(10, 4), ids())
    graph_def = tf.get_default_graph().as_graph_def()
    (node,) = [node for node in graph_def.node if node.name == "table"]
    node.attr["value"].tensor.tensor_content = b""
    node.attr[ELIDED].i = 160
    (lookup,) = find_lookups(GraphView(graph_def)).lookups
    assert lookup.tables[0].shape == (10, 4)


@pytest.mark.parametrize("shape, dtype", [((10,), tf.float32), ((10, 4), tf.int64)])
def test_lists_and_integers_are_no_tables(shape: Any, dtype: Any) -> None:
    tf.gather(constant(*shape, dtype=dtype), ids())
    assert not search().lookups and not search().refusals


def test_constants_of_a_graph_that_trains_are_no_tables() -> None:
    weights = tf.get_variable("weights", [4])
    rows = tf.nn.embedding_lookup(constant(10, 4), ids())
    assert trains_nothing(shaped_view()) and len(search().lookups) == 1
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows * weights))
    assert not trains_nothing(shaped_view()) and not search().lookups


def test_a_constant_of_a_branch_is_no_table_and_one_before_it_is_refused() -> None:
    chosen, place = tf.placeholder(tf.bool, []), ids()
    outside = constant(10, 4)

    def of_branch() -> Any:
        inside = tf.constant(np.ones([10, 4]), tf.float32, name="inside")
        return tf.gather(inside, place)

    tf.identity(tf.cond(chosen, of_branch, lambda: tf.gather(outside, place)), "result")
    view = shaped_view()
    switched = [name for name in view.of_op("Const") if view.controls(name)]
    if not switched:  # Branches are functions.
        return
    assert not any(is_frozen_table(view, name) for name in switched)
    assert [code for code, _ in codes(search())] == ["lookup_in_control_flow"]


def test_parts_that_are_concatenated_are_refused() -> None:
    parts = [tf.constant(np.ones([5, 2]), tf.float32) for _ in range(2)]
    tf.gather(tf.concat(parts, 0), ids(), name="gather")
    assert codes(search()) == [("partitions_concatenated", "gather")]
