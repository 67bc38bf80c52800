"""Bodies of functions as nodes beside the graph, also of files that make no sense."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.graph.called_bodies import CalledBodies, largest_branch
from graph_opt.graph.view import GraphView
from graph_opt.report_page.called_nodes import row_readers
from tests.called_functions import looked_up_twice
from tests.control_flow import control_flow_v2


def called_graph() -> Any:
    """A function that calls another, twice; a conditional; a loop."""
    with control_flow_v2(True), tf.Graph().as_default() as graph:
        ids, first, second = looked_up_twice()
        chosen = tf.cond(
            tf.size(ids) > 2,
            lambda: tf.abs(tf.negative(first)),
            lambda: tf.abs(second),
            name="cond",
        )
        tf.while_loop(lambda n, _: n < 3, lambda n, x: (n + 1, x + 1.0), [0, chosen], name="loop")
        return graph.as_graph_def()


def with_bodies(graph_def: Any, bodies: CalledBodies) -> GraphView:
    """The graph with the bodies: that all edges have an end is what a view requires."""
    nodes = [*graph_def.node, *bodies.nodes.values()]
    return GraphView(tf.GraphDef(node=nodes, library=graph_def.library))


def test_each_call_has_its_own_body_behind_what_it_is_given() -> None:
    graph_def = called_graph()
    bodies = CalledBodies(graph_def)
    view = with_bodies(graph_def, bodies)
    calls = ("tower/StatefulPartitionedCall", "tower/StatefulPartitionedCall_1")
    assert set(bodies.callers.values()) == {*calls, "cond", "loop"}
    readers = row_readers(bodies, {node.name: node for node in graph_def.node})
    for call in calls:
        (rows,) = readers[call, "table"]
        assert rows.startswith(call + "/") and rows.endswith("/rows")
        (result,) = {text.partition(":")[0] for text in bodies.results[call]}
        assert rows in view.ancestors([result])
    assert "ids" in view.ancestors([readers[calls[0], "table"][0]])
    (doubled,) = [
        name for name in bodies.nodes if name.endswith("/doubled") and calls[1] + "/" in name
    ]
    assert bodies.callers[doubled] == calls[1]
    assert {bodies.callers[name] for name in bodies.iterated} == {"loop"}
    assert bodies.left_out == []


def test_a_conditional_may_have_its_largest_branch_alone() -> None:
    graph_def = called_graph()
    branches = [
        {name.split("/")[1] for name, caller in bodies.callers.items() if caller == "cond"}
        for bodies in (CalledBodies(graph_def), CalledBodies(graph_def, called=largest_branch))
    ]
    assert len(branches[0]) == 2 and len(branches[1]) == 1
    assert "cond_true" in "".join(branches[1])


def test_functions_that_call_themselves_or_are_too_large_are_left_out() -> None:
    graph_def = called_graph()
    assert CalledBodies(graph_def, most_nodes=0).nodes == {}
    assert len(CalledBodies(graph_def, most_nodes=0).left_out) == 4
    again = {one.signature.name: one for one in graph_def.library.function}
    (outer,) = {node.attr["f"].func.name for node in graph_def.node if "f" in node.attr}
    (inner,) = [node for node in again[outer].node_def if "f" in node.attr]
    inner.attr["f"].func.name = outer
    left = CalledBodies(graph_def).left_out
    assert len(left) == 2 and all(name.endswith("/" + inner.name) for name in left)


def test_what_makes_no_sense_in_a_function_is_left_out() -> None:
    graph_def = called_graph()
    for function in graph_def.library.function:
        function.node_def[0].input.extend(["no_such:output:0", "^no_such", ":::", "", "^"])
        function.node_def.add(name="unknown", op="NoSuchOp", input=["alsoNot", "unknown:y:3"])
        function.node_def.add(name=function.node_def[0].name, op="NoOp")
        function.ret["no_such"] = "nothing:x:0"
        function.control_ret["no_such"] = "nothing"
        function.signature.output_arg.add(name="not_returned")
        del function.signature.input_arg[:1]
    bodies = CalledBodies(graph_def)
    assert bodies.nodes and with_bodies(graph_def, bodies)


def test_names_of_bodies_avoid_those_of_the_graph() -> None:
    graph_def = called_graph()
    taken = next(iter(CalledBodies(graph_def).nodes))
    graph_def.node.add(name=taken, op="NoOp")
    bodies = CalledBodies(graph_def)
    assert taken not in bodies.nodes and with_bodies(graph_def, bodies)
