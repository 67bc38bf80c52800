"""Shapes are inferred for graphs read from files, which otherwise stay the same."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.inspect.shapes import ATTRIBUTE, add_missing_shapes, add_shapes, without_shapes


def test_shapes_are_those_that_tensorflow_infers() -> None:
    rows = tf.placeholder(tf.float32, [None, 4])
    tf.concat([rows, rows], 1, name="joined")
    graph = tf.get_default_graph()
    plain = graph.as_graph_def()
    shaped = graph.as_graph_def()
    assert add_shapes(shaped)
    expected = {
        node.name: node.attr[ATTRIBUTE] for node in graph.as_graph_def(add_shapes=True).node
    }
    assert {node.name: node.attr[ATTRIBUTE] for node in shaped.node} == expected
    assert without_shapes(shaped) == plain
    for node in shaped.node[::2]:
        del node.attr[ATTRIBUTE]
    assert not add_shapes(shaped)
    add_missing_shapes(shaped)
    assert {node.name: node.attr[ATTRIBUTE] for node in shaped.node} == expected


def test_a_graph_that_cannot_be_imported_stays_unchanged() -> None:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="x", op="Placeholder")  # Without the dtype that it must have.
    before = graph_def.SerializeToString()
    add_shapes(graph_def)
    assert graph_def.SerializeToString() == before


def test_ops_of_other_libraries_leave_shapes_to_what_does_not_need_theirs() -> None:
    rows = tf.placeholder(tf.float32, [None, 4], name="rows")
    tf.identity(rows, name="before")
    graph_def = tf.get_default_graph().as_graph_def()
    for name, op, source in (
        ("reduced", "HorovodAllreduce", "before"),
        ("after_collective", "Relu", "reduced"),
        ("strange", "NoSuchOpAnywhere", "before"),
        ("after_strange", "Relu", "strange"),
        ("near", "Relu", "before"),
    ):
        node = graph_def.node.add(name=name, op=op, input=[source])
        node.attr["T"].type = tf.float32.as_datatype_enum
    graph_def.node[-1].attr["_class"].list.s.append(b"loc:@strange")
    ops = [node.op for node in graph_def.node]
    add_shapes(graph_def)
    shapes = {
        node.name: [size.size for size in node.attr[ATTRIBUTE].list.shape[0].dim]
        for node in graph_def.node
        if ATTRIBUTE in node.attr
    }
    known = ("rows", "before", "reduced", "after_collective", "near")
    assert shapes == {name: [-1, 4] for name in known}
    assert [node.op for node in graph_def.node] == ops


def test_what_a_later_release_lets_an_op_take_leaves_it_its_shape() -> None:
    tf.placeholder(tf.int32, [None, 2], name="indices")
    tf.constant([2, 3], tf.int32, name="sizes")
    graph_def = tf.get_default_graph().as_graph_def()
    later = graph_def.node.add(name="later", op="SparseReshape")
    later.input.extend(["indices", "sizes", "sizes:0"])
    later.attr["index_type"].type = tf.int32.as_datatype_enum  # Here it takes int64 alone.
    after = graph_def.node.add(name="after", op="Relu", input=["later"])
    after.attr["T"].type = tf.int64.as_datatype_enum
    names = [node.name for node in graph_def.node]
    add_shapes(graph_def)
    sizes = {
        node.name: [size.size for shape in node.attr[ATTRIBUTE].list.shape for size in shape.dim]
        for node in graph_def.node
    }
    assert sizes == {"indices": [-1, 2], "sizes": [2], "later": [-1, 2, 2], "after": [-1, 2]}
    assert list(sizes) == names
    assert list(graph_def.node[2].input) == ["indices", "sizes", "sizes:0"]
