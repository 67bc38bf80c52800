"""Bodies of functions in place of their calls compute, and do, what the calls did."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np
import pytest
import tensorflow

from graph_opt.compat import tf
from graph_opt.graph.inlined_calls import inline_calls
from graph_opt.graph.view import GraphView
from tests.control_flow import control_flow_v2

CALLS = ("StatefulPartitionedCall", "PartitionedCall")


def looked_up(v2: bool = True, in_conditional: bool = False) -> Any:
    """A function that calls another, called twice, and a conditional; `result` is of all."""
    with control_flow_v2(v2), tf.Graph().as_default() as graph:
        table = tf.get_variable("table", initializer=_rows(), use_resource=True)
        ids = tf.placeholder(tf.int64, [None], name="ids")

        @tensorflow.function
        def doubled(rows: Any, unread: Any) -> Any:
            return 2.0 * rows, rows

        @tensorflow.function
        def rows_of(ids: Any) -> Any:
            twice, once = doubled(tf.gather(table, ids, name="rows"), ids)
            return twice + once, once

        if in_conditional:
            result = tf.cond(tf.size(ids) > 2, lambda: rows_of(ids)[0], lambda: rows_of(ids + 1)[0])
        else:
            first, _ = rows_of(ids)
            _, second = rows_of(ids + 1)
            result = tf.cond(tf.size(ids) > 2, lambda: first, lambda: tf.negative(second))
        tf.identity(result, "result")
        return graph.as_graph_def()


def _rows() -> np.ndarray:
    return np.arange(40, dtype=np.float32).reshape([10, 4])


def run(graph_def: Any, feeds: Sequence[Dict[str, Any]], init: str = "table/Assign") -> List[Any]:
    """What a session of the graph says of `result`, feed by feed."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        session.run(graph.get_operation_by_name(init))
        return [session.run("result:0", feed) for feed in feeds]


def inlined(graph_def: Any, *named: str) -> Any:
    copy = tf.GraphDef()
    copy.CopyFrom(graph_def)
    inline_calls(copy, {"result", *named})
    return copy


def test_results_are_the_same() -> None:
    stock = looked_up()
    graph_def = inlined(stock)
    assert not GraphView(graph_def).of_op(*CALLS)
    feeds = [{"ids:0": [1, 5, 3]}, {"ids:0": [7]}]
    for expected, found in zip(run(stock, feeds), run(graph_def, feeds)):
        np.testing.assert_array_equal(expected, found)


def test_functions_that_nothing_calls_are_gone() -> None:
    stock = looked_up()
    names = {one.signature.name for one in inlined(stock).library.function}
    branches = {
        node.attr[key].func.name
        for node in stock.node
        if node.op in ("If", "StatelessIf")
        for key in ("then_branch", "else_branch")
    }
    assert names == branches and len(stock.library.function) > len(names)


def test_nothing_waits_for_what_merely_reads() -> None:
    view = GraphView(inlined(looked_up()))
    gathers = view.of_op("ResourceGather")
    assert len(gathers) == 2
    assert not any(view.control_uses(name) for name in (*gathers, *view.of_op("ReadVariableOp")))


def test_what_is_named_keeps_its_name() -> None:
    stock = looked_up()
    call = next(node for node in stock.node if node.op == "StatefulPartitionedCall")
    view = GraphView(inlined(stock, call.name))
    assert view.op(call.name) == "IdentityN"
    assert list(view.dtypes(call.name) or ()) == list(call.attr["Tout"].list.type)


def test_what_acts_is_done_in_its_order() -> None:
    with tf.Graph().as_default() as graph:
        counter = tf.get_variable("counter", initializer=0.0, use_resource=True)
        x = tf.placeholder(tf.float32, [], name="x")

        @tensorflow.function
        def count() -> Any:
            before = counter.read_value()
            counter.assign_add(1.0)
            return before

        @tensorflow.function
        def counted(x: Any) -> Any:
            tf.debugging.assert_positive(x, message="not positive")
            first = count()
            counter.assign(counter.read_value() * 2.0)
            return x + 100.0 * first + 10.0 * count()

        tf.identity(counted(x), "result")
        stock = graph.as_graph_def()
    graph_def = inlined(stock)
    assert not GraphView(graph_def).of_op(*CALLS)
    feeds = [{"x:0": number} for number in (1.0, 2.0, 3.0)]
    expected = run(stock, feeds, "counter/Assign")
    assert expected[1] == run(graph_def, feeds, "counter/Assign")[1] != expected[0]
    assert expected == run(graph_def, feeds, "counter/Assign")
    with pytest.raises(tf.errors.InvalidArgumentError, match="not positive"):
        run(graph_def, [{"x:0": -1.0}], "counter/Assign")


@pytest.mark.parametrize("attribute", ["_noinline", "_XlaMustCompile"])
def test_calls_that_say_so_stay(attribute: str) -> None:
    stock = looked_up()
    for function in stock.library.function:
        function.attr[attribute].b = True
    assert inlined(stock) == stock


def test_calls_within_conditionals_of_version_1_stay() -> None:
    stock = looked_up(v2=False, in_conditional=True)
    graph_def = inlined(stock)
    assert len(GraphView(graph_def).of_op(*CALLS)) == 2
    feeds = [{"ids:0": [1, 5, 3]}, {"ids:0": [7]}]
    for expected, found in zip(run(stock, feeds), run(graph_def, feeds)):
        np.testing.assert_array_equal(expected, found)


def test_a_function_that_calls_itself_is_called_there() -> None:
    stock = looked_up()
    outer = next(
        one for one in stock.library.function if any(node.op in CALLS for node in one.node_def)
    )
    for node in outer.node_def:
        if node.op in CALLS:
            node.attr["f"].func.name = outer.signature.name
            node.input[:] = [argument.name for argument in outer.signature.input_arg]
    graph_def = tf.GraphDef()
    graph_def.CopyFrom(stock)
    assert inline_calls(graph_def, {"result"}) == 2
    assert len(GraphView(graph_def).of_op(*CALLS)) == 2
