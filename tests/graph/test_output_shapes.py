"""Static shapes of new nodes, compared with those of TensorFlow's graphs."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.graph.op_call import Tensor, call_op
from graph_opt.graph.output_shapes import give_output_shapes
from graph_opt.graph.view import GraphView, TensorRef

FLOAT, INT32, INT64 = (one.as_datatype_enum for one in (tf.float32, tf.int32, tf.int64))


def view_of_inputs() -> GraphView:
    """x [?, 3], a resource variable [5, 2], a reference [7, 4], and a constant shape."""
    tf.placeholder(tf.float32, [None, 3], name="x")
    tf.get_variable("handle", [5, 2], use_resource=True)
    tf.get_variable("reference", [7, 4], use_resource=False)
    tf.constant([-1, 6], name="size")
    tf.placeholder(tf.int64, [None], name="ids")
    return GraphView(tf.get_default_graph().as_graph_def(add_shapes=True))


def shapes(view: GraphView, *nodes: Any) -> Dict[str, List[Optional[Tuple[Optional[int], ...]]]]:
    give_output_shapes(view, nodes)
    after = view.after({}, nodes)
    return {
        node.name: [
            after.shape(TensorRef(node.name, index))
            for index in range(len(node.attr["_output_shapes"].list.shape))
        ]
        for node in nodes
    }


def test_shapes_follow_from_those_of_the_graph_and_of_other_new_nodes() -> None:
    doubled = call_op("AddV2", "doubled", {"x": Tensor("x", FLOAT), "y": Tensor("x", FLOAT)})
    flat = call_op("Reshape", "flat", {"tensor": doubled.result, "shape": Tensor("size", INT32)})
    unique = call_op("Unique", "unique", {"x": Tensor("ids", INT64)})
    found = shapes(view_of_inputs(), flat.node, doubled.node, unique.node)
    assert found == {"doubled": [(None, 3)], "flat": [(None, 6)], "unique": [(None,), (None,)]}


def test_variables_tell_their_shapes() -> None:
    read = {"resource": Tensor("handle"), "indices": Tensor("ids", INT64), "dtype": FLOAT}
    gather = call_op("ResourceGather", "gather", read)
    of_reference = {"params": Tensor("reference", FLOAT), "indices": Tensor("ids", INT64)}
    stock = call_op("Gather", "stock", of_reference)
    update = {"ref": Tensor("reference", FLOAT), "value": Tensor("x", FLOAT)}
    assign = call_op("Assign", "assign", {**update, "validate_shape": False})
    found = shapes(view_of_inputs(), gather.node, stock.node, assign.node)
    assert found["gather"] == [(None, 2)]
    assert found["stock"] == [(None, 4)]
    assert found["assign"] == [(None, 3)]


def test_nodes_of_a_later_release_have_shapes_and_keep_their_attributes() -> None:
    later = tf.NodeDef(name="later", op="SparseReshape", input=["places", "sizes", "sizes"])
    later.attr["index_type"].type = INT32  # Here it takes int64 alone.
    tf.placeholder(tf.int32, [None, 2], name="places")
    tf.constant([2, 3], tf.int32, name="sizes")
    view = GraphView(tf.get_default_graph().as_graph_def(add_shapes=True))
    assert shapes(view, later) == {"later": [(None, 2), (2,)]}
    assert later.attr["index_type"].type == INT32
    assert list(later.input) == ["places", "sizes", "sizes"]


def test_known_shapes_and_other_attributes_stay() -> None:
    node = call_op("Neg", "neg", {"x": Tensor("x", FLOAT), "_class": ["loc:@gone"]}).node
    node.attr["_output_shapes"].list.shape.add().dim.add(size=11)
    after = call_op("Abs", "after", {"x": Tensor("neg", FLOAT)}).node
    after.input.append("^x")
    assert shapes(view_of_inputs(), node, after) == {"neg": [(11,)], "after": [(11,)]}
    assert list(node.attr["_class"].list.s) == [b"loc:@gone"]
    assert list(after.input) == ["neg", "^x"]


def test_ops_of_other_processes_and_their_readers_have_no_shapes() -> None:
    unknown = tf.NodeDef(name="unknown", op="OpOfAnotherLibrary", input=["x"])
    reader = call_op("Neg", "reader", {"x": Tensor("unknown", FLOAT)}).node
    after = call_op("Neg", "after", {"x": Tensor("reader", FLOAT)}).node
    found = shapes(view_of_inputs(), unknown, reader, after)
    assert found == {"unknown": [], "reader": [], "after": [None]}


def test_inputs_that_an_op_does_not_take_are_an_error() -> None:
    wrong = call_op("MatMul", "wrong", {"a": Tensor("x", FLOAT), "b": Tensor("x", FLOAT)}).node
    view = view_of_inputs()
    view.nodes["x"].attr["_output_shapes"].list.shape[0].dim[0].size = 8
    with pytest.raises(tf.errors.InvalidArgumentError, match="wrong"):
        give_output_shapes(view, [wrong])
