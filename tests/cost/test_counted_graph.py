"""What functions do inside is counted as if it stood in the graph: rows, bytes, ops, memory."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import tensorflow

from graph_opt.compat import tf
from graph_opt.cost.assumptions import Assumptions, NumberFor
from graph_opt.cost.cost_plan import cost_plan
from graph_opt.cost.planned_graph import PlannedGraph
from graph_opt.inspect.shapes import without_shapes
from graph_opt.reporting.cost import CostPlan
from tests.control_flow import control_flow_v2

BATCH = 16
WIDTH = 8


def planned(build: Callable[[Any, Any], Any], with_shapes: bool = True) -> CostPlan:
    """The plan of what is built from a table and a batch of bags."""
    with control_flow_v2(True), tf.Graph().as_default() as graph:
        table = tf.get_variable("table", [100, WIDTH], use_resource=True)
        bags = tf.sparse_placeholder(tf.int64, [None, 5], name="bags")
        tf.identity(build(table, bags), name="result")
        graph_def = graph.as_graph_def(add_shapes=True)
    assumptions = Assumptions(batch=BATCH, ids_per_row=(NumberFor.parse("--ids-per-row", "3"),))
    given = graph_def if with_shapes else without_shapes(graph_def)
    return cost_plan(PlannedGraph(given, fetches=("result",)), assumptions)


def pooled(table: Any, bags: Any) -> Any:
    """What `embedding_column` does for a bag."""
    return tf.nn.safe_embedding_lookup_sparse(table, bags, combiner="mean")


def in_function(table: Any, bags: Any) -> Any:
    """The same in a function that a function calls."""
    inner = tensorflow.function(lambda given: pooled(table, given))
    return tensorflow.function(lambda given: inner(given))(bags)


def in_branch(table: Any, bags: Any) -> Any:
    """The same in a branch, whose alternative is small."""
    none = tf.zeros([BATCH, WIDTH])
    return tf.cond(tf.size(bags) > 0, lambda: pooled(table, bags), lambda: none)


def in_loop(table: Any, bags: Any) -> Any:
    """The same in a loop."""
    start = [0, tf.zeros([BATCH, WIDTH])]
    return tf.while_loop(lambda n, _: n < 9, lambda n, x: (n + 1, x + pooled(table, bags)), start)[
        1
    ]


@pytest.mark.parametrize("build", [in_function, in_branch, in_loop])
def test_rows_read_in_functions_are_counted(build: Callable[[Any, Any], Any]) -> None:
    outside, inside = planned(pooled), planned(build)
    assert outside.before.rows == BATCH * 3
    assert inside.before.rows == outside.before.rows
    assert inside.before.row_bytes == outside.before.row_bytes == BATCH * 3 * WIDTH * 4
    assert inside.unknown == outside.unknown == ()
    assert inside.memory == outside.memory
    assert outside.before.ops <= inside.before.ops <= outside.before.ops + 20
    assert any("functions are counted once for each call" in one for one in inside.assumptions)
    looped = [one for one in inside.assumptions if "in loops: counted for one iteration" in one]
    assert bool(looped) == (build is in_loop)


def test_each_call_is_counted() -> None:
    def twice(table: Any, bags: Any) -> Any:
        function = tensorflow.function(lambda given: pooled(table, given))
        return function(bags) + function(bags)

    assert planned(twice).before.rows == 2 * BATCH * 3


def test_sizes_in_functions_are_found_without_static_shapes() -> None:
    assert planned(in_function, with_shapes=False).before.rows == BATCH * 3


def test_a_function_that_trains_is_a_step() -> None:
    with tf.Graph().as_default() as graph:
        table = tf.get_variable("table", [100, WIDTH], use_resource=True)
        ids = tf.placeholder(tf.int64, [BATCH], name="ids")

        @tensorflow.function
        def train(ids: Any) -> None:
            table.scatter_sub(tf.IndexedSlices(tf.gather(table, ids), ids))

        train(ids)
        graph_def = graph.as_graph_def(add_shapes=True)
    plan = cost_plan(PlannedGraph(graph_def), Assumptions(batch=BATCH))
    assert plan.before.rows == BATCH
    calls = [node.name for node in graph_def.node if node.op == "StatefulPartitionedCall"]
    assert [end.partition("/")[0] for end in plan.ends] == calls
