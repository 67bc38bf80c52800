"""Tables read inside functions are refused by name; tables merely passed through are not."""

from __future__ import annotations

from typing import Iterator

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.rules import find_lookups
from tests.rules.search import codes, search


@pytest.fixture
def control_flow_of_version_2() -> Iterator[None]:
    """Builds tf.cond and tf.while_loop as ops with functions, as in TensorFlow 2."""
    tf.enable_control_flow_v2()
    yield
    tf.disable_control_flow_v2()


def table(resource: bool = True) -> tf.Variable:
    return tf.get_variable("table", [10, 4], use_resource=resource)


def ids() -> tf.Tensor:
    return tf.placeholder(tf.int64, [None], name="ids")


def refused() -> None:
    found = search()
    assert found.lookups == ()
    assert [code for code, _ in codes(found)] == ["lookup_in_function"]
    assert "table table" in found.refusals[0].saw


@pytest.mark.parametrize("resource", [False, True])
def test_a_lookup_in_a_function_is_refused(resource: bool) -> None:
    variable = table(resource)

    @tf.function
    def rows(chosen: tf.Tensor) -> tf.Tensor:
        return tf.nn.embedding_lookup(variable, chosen)

    rows(ids())
    refused()


def test_a_lookup_in_a_function_of_a_function_is_refused() -> None:
    variable = table()

    @tf.function
    def inner(chosen: tf.Tensor) -> tf.Tensor:
        return tf.gather(variable, chosen)

    @tf.function
    def outer(chosen: tf.Tensor) -> tf.Tensor:
        return inner(chosen) + 1.0

    outer(ids())
    refused()


def test_a_fast_sparse_lookup_in_a_function_is_refused() -> None:
    variable = tf.identity(table(False))

    @tf.function
    def pooled(chosen: tf.Tensor) -> tf.Tensor:
        return tf.sparse.segment_mean(variable, chosen, chosen)

    pooled(ids())
    refused()


@pytest.mark.usefixtures("control_flow_of_version_2")
def test_a_lookup_in_a_branch_is_refused() -> None:
    variable, chosen = table(), ids()
    tf.cond(
        tf.size(chosen) > 3,
        lambda: tf.nn.embedding_lookup(variable, chosen),
        lambda: tf.zeros([1, 4]),
    )
    refused()


@pytest.mark.usefixtures("control_flow_of_version_2")
def test_a_lookup_in_a_loop_body_is_refused() -> None:
    variable, chosen = table(), ids()
    tf.while_loop(
        lambda step, total: step < 3,
        lambda step, total: (step + 1, total + tf.nn.embedding_lookup(variable, chosen)[0]),
        [tf.constant(0), tf.zeros([4])],
    )
    refused()


def test_a_function_that_uses_the_table_otherwise_is_not_a_lookup() -> None:
    variable = table()

    @tf.function
    def total(chosen: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(variable) + tf.cast(tf.reduce_sum(chosen), tf.float32)

    total(ids())
    assert search().lookups == () and search().refusals == ()


def test_a_gather_in_a_function_from_something_else_is_not_a_lookup() -> None:
    @tf.function
    def rows(params: tf.Tensor, chosen: tf.Tensor) -> tf.Tensor:
        return tf.gather(params, chosen)

    rows(tf.placeholder(tf.float32, [10, 4]), ids())
    assert search().lookups == () and search().refusals == ()


def test_lookups_outside_functions_are_found_as_well() -> None:
    @tf.function
    def double(rows: tf.Tensor) -> tf.Tensor:
        return rows * 2.0

    double(tf.nn.embedding_lookup(table(), ids()))
    assert len(search().lookups) == 1 and search().refusals == ()


def test_functions_that_call_each_other_forever_do_no_harm() -> None:
    graph_def = tf.GraphDef()
    for name, other in (("first", "second"), ("second", "first")):
        function = graph_def.library.function.add()
        function.signature.name = name
        function.signature.input_arg.add(name="params", type=tf.resource.as_datatype_enum)
        function.node_def.add(name="call", op=other, input=["params"])
    body = graph_def.library.function[1]
    body.node_def.add(name="rows", op="ResourceGather", input=["params", "params"])
    variable = graph_def.node.add(name="table", op="VarHandleOp")
    variable.attr["dtype"].type = tf.float32.as_datatype_enum
    variable.attr["shape"].shape.dim.add(size=10)
    graph_def.node.add(name="caller", op="first", input=["table"])
    found = find_lookups(GraphView(graph_def))
    assert codes(found) == [("lookup_in_function", "caller")]
