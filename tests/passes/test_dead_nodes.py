"""Which nodes a rewrite leaves dead, and which it does not."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.dead_nodes import dead_nodes


def view_of(graph: tf.Graph) -> GraphView:
    return GraphView(graph.as_graph_def(add_shapes=True))


def test_what_only_replaced_nodes_read_is_dead_too() -> None:
    with tf.Graph().as_default() as graph:
        table = tf.get_variable("table", [4, 2], use_resource=False)
        ids = tf.constant([1, 2], name="ids")
        tf.gather(table, tf.add(ids, 1, name="shifted"), name="rows")
    view = view_of(graph)
    dead = dead_nodes(view, {"rows"})
    assert {"rows", "shifted", "ids", "rows/axis"} <= dead
    assert "table" not in dead


def test_a_result_that_nobody_reads_is_not_dead() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.add(x, 1.0, name="result")
    assert dead_nodes(view_of(graph), set()) == set()


def test_a_replaced_node_that_something_else_reads_is_not_dead() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.constant(1.0, name="x")
        y = tf.add(x, 1.0, name="replaced")
        tf.add(y, 1.0, name="kept")
    assert dead_nodes(view_of(graph), {"replaced"}) == set()


def test_a_control_edge_counts_as_a_reader() -> None:
    with tf.Graph().as_default() as graph:
        first = tf.constant(1.0, name="first")
        with tf.control_dependencies([first]):
            tf.constant(2.0, name="waiting")
    assert dead_nodes(view_of(graph), {"first"}) == set()
    assert dead_nodes(view_of(graph), {"first", "waiting"}) == {"first", "waiting"}
