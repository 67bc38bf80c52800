"""Nodes as calls of their ops, compared with those of TensorFlow's own functions."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import pytest

from graph_opt.compat import tf
from graph_opt.graph.op_call import Call, Tensor, attribute_value, call_op, inputs_by_name
from graph_opt.graph.view import GraphView, TensorRef

FLOAT, INT32, INT64 = (one.as_datatype_enum for one in (tf.float32, tf.int32, tf.int64))
X, Y = Tensor("x", FLOAT), Tensor("y", FLOAT)
IDS = Tensor("ids", INT64)
COUNT = Tensor("count", INT32)
Given = Dict[str, Any]


def placeholders() -> Dict[str, Any]:
    return {
        str(each): tf.placeholder(each.dtype, [] if each == "count" else [4], name=str(each))
        for each in (X, Y, IDS, COUNT)
    }


@pytest.mark.parametrize(
    "op, given, write",
    [
        ("AddV2", {"x": X, "y": Y}, lambda t: tf.raw_ops.AddV2(x=t["x"], y=t["y"])),
        ("Cast", {"x": IDS, "DstT": INT32}, lambda t: tf.raw_ops.Cast(x=t["ids"], DstT=tf.int32)),
        ("Pack", {"values": [X, Y]}, lambda t: tf.raw_ops.Pack(values=[t["x"], t["y"]])),
        (
            "GatherV2",
            {"params": X, "indices": IDS, "axis": COUNT},
            lambda t: tf.raw_ops.GatherV2(params=t["x"], indices=t["ids"], axis=t["count"]),
        ),
        (
            "IdentityN",
            {"input": [X, IDS]},
            lambda t: tf.raw_ops.IdentityN(input=[t["x"], t["ids"]]),
        ),
        (
            "PlaceholderWithDefault",
            {"input": X, "shape": (None,)},
            lambda t: tf.raw_ops.PlaceholderWithDefault(input=t["x"], shape=[None]),
        ),
        (
            "Unique",
            {"x": IDS, "out_idx": INT64},
            lambda t: tf.raw_ops.Unique(x=t["ids"], out_idx=tf.int64),
        ),
        (
            "AsString",
            {"input": X, "precision": 3, "scientific": True, "fill": "0"},
            lambda t: tf.raw_ops.AsString(input=t["x"], precision=3, scientific=True, fill="0"),
        ),
    ],
)
def test_a_call_is_what_the_function_of_tensorflow_writes(
    op: str, given: Given, write: Callable[[Dict[str, Any]], Any]
) -> None:
    made = write(placeholders())
    stock = (made[0] if isinstance(made, (list, tuple)) else made).op.node_def
    call = call_op(op, stock.name, given, stock.device)
    with_defaults = tf.NodeDef.FromString(stock.SerializeToString())
    for key in [key for key in stock.attr if key not in call.node.attr]:
        del with_defaults.attr[key]  # what is left out keeps its default
    assert call.node == with_defaults


def test_outputs_have_names_and_dtypes() -> None:
    unique = call_op("Unique", "scope/unique", {"x": IDS, "out_idx": INT32})
    values, places = unique.output("y"), unique.output("idx")
    assert (values, values.dtype) == ("scope/unique", INT64)
    assert (places, places.dtype) == ("scope/unique:1", INT32)
    assert places.ref == TensorRef("scope/unique", 1)
    split = call_op("Split", "split", {"split_dim": COUNT, "value": X, "num_split": 3})
    assert split.outputs("output") == ["split", "split:1", "split:2"]
    assert call_op("Neg", "neg", {"x": X}).result == "neg"
    with pytest.raises(ValueError, match="op 'Neg' has no output 'z'"):
        call_op("Neg", "neg", {"x": X}).outputs("z")


@pytest.mark.parametrize(
    "op, given, message",
    [
        ("NoSuchOp", {}, "op 'NoSuchOp' is not registered"),
        ("AddV2", {"x": X}, "op 'AddV2' needs input 'y'"),
        ("AddV2", {"x": X, "y": Y, "z": 1}, "op 'AddV2' has no argument 'z'"),
        ("AddV2", {"x": [X, Y], "y": Y}, "op 'AddV2' takes one tensor as 'x'"),
        ("AddV2", {"x": X, "y": IDS}, "the arguments of op 'AddV2' disagree on 'T': 1 and 9"),
        ("AddV2", {"x": X, "y": Y, "T": INT64}, "disagree on 'T': 1 and 9"),
        ("AddV2", {"x": "x", "y": "y"}, "op 'AddV2' needs attribute 'T'"),
        ("Assert", {"condition": X, "data": [Y]}, "disagree on 'condition': 10 and 1"),
    ],
)
def test_wrong_arguments_are_errors(op: str, given: Given, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call_op(op, "node", given)


def test_unknown_dtypes_are_given() -> None:
    call = call_op("AddV2", "sum", {"x": "a", "y": "b:2", "T": FLOAT})
    assert list(call.node.input) == ["a", "b:2"]
    assert call.result.dtype == FLOAT


def test_every_node_may_have_attributes_that_begin_with_an_underscore() -> None:
    given: Given = {"x": X, "_mark": True, "_class": ["loc:@table"], "_count": 3, "_why": "text"}
    attributes = call_op("Neg", "neg", given).node.attr
    assert attributes["_mark"].b and attributes["_count"].i == 3
    assert list(attributes["_class"].list.s) == [b"loc:@table"]
    assert attributes["_why"].s == b"text"


@pytest.mark.parametrize(
    "value, kind, expected",
    [
        (3, "int", tf.AttrValue(i=3)),
        (1, "float", tf.AttrValue(f=1.0)),
        ([], "list(int)", tf.AttrValue(list=tf.AttrValue.ListValue())),
        ((1, 2), "list(int)", tf.AttrValue(list=tf.AttrValue.ListValue(i=[1, 2]))),
        (["a"], "list(string)", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"a"]))),
        ((2, None), "shape", tf.AttrValue(shape=tf.TensorShape([2, None]).as_proto())),
        (None, "shape", tf.AttrValue(shape=tf.TensorShape(None).as_proto())),
        (tf.AttrValue(i=4), "int", tf.AttrValue(i=4)),
        (True, "", tf.AttrValue(b=True)),
        (2, "", tf.AttrValue(i=2)),
        (0.5, "", tf.AttrValue(f=0.5)),
        ("a", "", tf.AttrValue(s=b"a")),
        (["a", "b"], "", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"a", b"b"]))),
        ([], "", tf.AttrValue(list=tf.AttrValue.ListValue())),
    ],
)
def test_values_become_those_of_attributes(value: Any, kind: str, expected: Any) -> None:
    found = attribute_value(value, kind)
    assert found == expected
    assert found.WhichOneof("value") == expected.WhichOneof("value")


def test_inputs_of_a_node_by_name() -> None:
    calls: List[Call] = [
        call_op("Placeholder", name, {"dtype": FLOAT}) for name in ("a", "b", "axis")
    ]
    axis = call_op("Const", "along", {"dtype": INT32, "value": tf.make_tensor_proto(0)})
    joined = call_op(
        "ConcatV2", "joined", {"values": [each.result for each in calls[:2]], "axis": axis.result}
    )
    joined.node.input.append("^axis")
    nodes = [each.node for each in (*calls, axis, joined)]
    found = inputs_by_name(GraphView(tf.GraphDef(node=nodes)), "joined")
    assert found == {
        "values": [TensorRef("a", 0), TensorRef("b", 0)],
        "axis": [TensorRef("along", 0)],
    }
