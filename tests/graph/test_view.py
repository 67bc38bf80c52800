"""GraphView: edges in both directions, dtypes, shapes, constants, bad GraphDefs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef, Use
from tests.control_flow import control_flow_v2


def _view(**options: bool) -> GraphView:
    return GraphView(tf.get_default_graph().as_graph_def(add_shapes=True, **options))


def test_edges_are_seen_from_both_ends() -> None:
    source = tf.placeholder(tf.float32, [None, 4], name="source")
    _, second = tf.split(source, 2, axis=1, name="halves")
    with tf.control_dependencies([tf.no_op("before")]):
        tf.identity(second, name="reader")
    view = _view()
    assert view.inputs("reader") == (TensorRef("halves", 1),)
    assert view.controls("reader") == ("before",)
    assert view.uses(TensorRef("halves", 1)) == [Use("reader", 0)]
    assert view.uses(TensorRef("halves", 0)) == []
    assert view.control_uses("before") == ["reader"]


def test_dtypes_and_shapes_of_every_output() -> None:
    unique = tf.unique(tf.placeholder(tf.int64, [None], name="ids"), name="unique")
    tf.get_variable("table", [3, 2], use_resource=False)
    view = _view()
    assert view.dtypes("unique") == [unique.y.dtype, unique.idx.dtype]
    assert view.dtype(TensorRef("table", 0)) == tf.float32.as_datatype_enum + 100
    assert view.shape(TensorRef("table", 0)) == (3, 2)
    assert view.shape(TensorRef("unique", 1)) == (None,)
    assert view.dtype(TensorRef("unique", 9)) is None


def test_a_constant_is_found_behind_identity_and_nothing_else() -> None:
    value = tf.identity(tf.constant([1, 2], name="value"), name="copy")
    tf.add(value, 1, name="sum")
    view = _view()
    found = view.constant(TensorRef("copy", 0))
    assert found is not None
    np.testing.assert_array_equal(found, [1, 2])
    assert view.constant(TensorRef("sum", 0)) is None


def test_an_input_that_no_node_produces_is_named() -> None:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="reader", op="Identity", input=["gone:1"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="'reader' reads 'gone:1'"):
        GraphView(graph_def)


def test_two_nodes_with_the_same_name_are_refused() -> None:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="twin", op="NoOp")
    graph_def.node.add(name="twin", op="NoOp")
    with pytest.raises(tf.errors.InvalidArgumentError, match="'twin'"):
        GraphView(graph_def)


def test_a_while_loop_is_not_a_cycle() -> None:
    tf.disable_control_flow_v2()
    tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="loop")
    view = _view()
    assert view.of_op("NextIteration")
    assert set(view.ancestors(view.of_op("Exit"))) >= set(view.of_op("Enter"))


def test_what_a_loop_reads_reaches_its_result_by_the_back_edge() -> None:
    given = tf.placeholder(tf.int32, [], name="given")
    with control_flow_v2(False):
        _, total = tf.while_loop(
            lambda step, _: step < 3,
            lambda step, total: (step + 1, total + given),
            [tf.constant(0), tf.constant(0)],
        )
    view = _view()
    assert total.op.name in view.descendants(["given"])
    assert "given" in view.ancestors([total.op.name])
    order = view.topological_order()
    assert order is not None and len(order) == len(view)


_EDGES = st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=4)


def _inputs(edges: list) -> list:
    data = ["n{}:{}".format(source, source % 3) for source, control in edges if not control]
    return data + ["^n{}".format(source) for source, control in edges if control]


@given(st.lists(_EDGES, min_size=10, max_size=10), st.dictionaries(st.integers(0, 9), _EDGES))
def test_the_view_after_a_rewrite_equals_a_new_view(before: list, changed: dict) -> None:
    graph_def = tf.GraphDef()
    for number, edges in enumerate(before):
        graph_def.node.add(name="n{}".format(number), op="Op", input=_inputs(edges))
    view = GraphView(graph_def)
    rewritten = tf.GraphDef()
    rewritten.CopyFrom(graph_def)
    for number, edges in changed.items():
        del rewritten.node[number].input[:]
        rewritten.node[number].input.extend(_inputs(edges))
    rewritten.node.add(name="new", op="Op", input=["n3:1", "^n4"])
    edited = {rewritten.node[number].name: rewritten.node[number] for number in changed}
    _assert_same_edges(view.after(edited, rewritten.node[10:]), rewritten)
    _assert_same_edges(view, graph_def)


@given(st.lists(_EDGES, min_size=10, max_size=10), st.sets(st.integers(0, 9)))
def test_the_view_without_some_nodes_equals_one_of_the_others(edges: list, gone: set) -> None:
    hidden = {"n{}".format(number) for number in gone}
    graph_def, shown = tf.GraphDef(), tf.GraphDef()
    for number, inputs in enumerate(_inputs(listed) for listed in edges):
        if number not in gone:
            inputs = [text for text in inputs if text.lstrip("^").partition(":")[0] not in hidden]
            shown.node.add(name="n{}".format(number), op="Op", input=inputs)
        graph_def.node.add(name="n{}".format(number), op="Op", input=inputs)
    view = GraphView(graph_def)
    is_sorted = view.topological_order() is not None
    _assert_same_edges(view.without(hidden), shown)
    assert not is_sorted or view.without(hidden).topological_order() is not None
    _assert_same_edges(view, graph_def)


def test_a_node_that_another_reads_is_not_left_out() -> None:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="a", op="NoOp")
    graph_def.node.add(name="b", op="NoOp", input=["^a"])
    view = GraphView(graph_def)
    assert list(view.without({"a", "b"}).nodes) == []
    with pytest.raises(tf.errors.InvalidArgumentError, match="node 'b' reads 'a'"):
        view.without({"a"})
    with pytest.raises(tf.errors.InvalidArgumentError, match="node 'c' reads '\\^b'"):
        view.without({"b"}).after({}, [tf.NodeDef(name="c", op="NoOp", input=["^b"])])


def _assert_same_edges(view: GraphView, graph_def: tf.GraphDef) -> None:
    fresh = GraphView(graph_def)
    assert list(view.nodes) == list(fresh.nodes)
    for name in fresh.nodes:
        assert view.inputs(name) == fresh.inputs(name)
        assert view.controls(name) == fresh.controls(name)
        assert sorted(view.node_uses(name)) == sorted(fresh.node_uses(name))
        assert sorted(view.control_uses(name)) == sorted(fresh.control_uses(name))


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=60))
def test_reachability_equals_the_transitive_closure(pairs: list) -> None:
    edges = {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}
    graph_def = tf.GraphDef()
    for number in range(41):
        inputs = ["^n{}".format(low) for low, high in sorted(edges) if high == number]
        graph_def.node.add(name="n{}".format(number), op="NoOp", input=inputs)
    closure = np.zeros((41, 41), dtype=bool)
    for low, high in sorted(edges, key=lambda edge: edge[1]):
        closure[high] |= closure[low]
        closure[high, low] = True
    view = GraphView(graph_def)
    for number in (40, 20):
        expected = {"n{}".format(i) for i in np.flatnonzero(closure[number])}
        assert set(view.ancestors(["n{}".format(number)])) == expected | {"n{}".format(number)}
