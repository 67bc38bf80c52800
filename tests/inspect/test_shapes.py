"""Shapes are inferred for graphs read from files, which otherwise stay the same."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.inspect.shapes import ATTRIBUTE, with_shapes, without_shapes


def test_shapes_are_those_that_tensorflow_infers() -> None:
    rows = tf.placeholder(tf.float32, [None, 4])
    tf.concat([rows, rows], 1, name="joined")
    graph = tf.get_default_graph()
    plain = graph.as_graph_def()
    shaped = with_shapes(plain)
    expected = {
        node.name: node.attr[ATTRIBUTE] for node in graph.as_graph_def(add_shapes=True).node
    }
    assert {node.name: node.attr[ATTRIBUTE] for node in shaped.node} == expected
    assert without_shapes(shaped) == plain
    assert with_shapes(shaped) is shaped


def test_a_graph_that_cannot_be_imported_comes_back_unchanged() -> None:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="x", op="NoSuchOpAnywhere")
    assert with_shapes(graph_def) is graph_def
