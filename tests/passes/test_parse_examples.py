"""The op that parses Examples has the outputs and errors of TensorFlow's, and takes its place."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.config.messages import ConfigProto
from graph_opt.config.options import session_options
from graph_opt.graph.rewrite import apply_to_graph_def
from graph_opt.passes.optimize import Planned, plan
from tests.example_share import example_share

SPARSE = [("s{}".format(i), dtype) for i, dtype in enumerate([tf.int64, tf.float32, tf.string] * 2)]
DENSE: List[Tuple[str, Any, List[int], Optional[List[Any]]]] = [
    ("required", tf.int64, [2], None),
    ("padded", tf.float32, [], [0.5]),
    ("matrix", tf.string, [2, 1], [b"a", b"b"]),
]
Feature = Tuple[str, List[Any]]


def served(graph_def: Any, fetches: List[str]) -> Planned:
    """What becomes of a graph that serves."""
    config = ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = True
    names = frozenset(name.partition(":")[0] for name in fetches)
    return plan(graph_def, dataclasses.replace(session_options(config), served=(names,)))


def parsed_by_both(rows: Any, names: Any = ()) -> List[Any]:
    """The outputs of TensorFlow's op and of ours, or the text of their error."""
    with tf.Graph().as_default() as graph:
        serialized = tf.placeholder(tf.string, name="serialized")
        of_errors = tf.placeholder(tf.string, name="names")
        specification: Dict[str, Any] = {name: tf.VarLenFeature(dtype) for name, dtype in SPARSE}
        for name, dtype, shape, default in DENSE:
            value = None if default is None else np.reshape(np.array(default), shape)
            specification[name] = tf.FixedLenFeature(shape, dtype, value)
        features = tf.io.parse_example(serialized, specification, example_names=of_errors)
        parts = [part for name in sorted(features) for part in _parts(features[name])]
        outputs = [tf.identity(part).name for part in parts]
    graph_def = graph.as_graph_def(add_shapes=True)
    planned = served(graph_def, outputs)
    assert planned.report.changes == ("Examples of 9 features parsed by an op of ours",)
    rewritten = apply_to_graph_def(graph_def, *planned.rewrites)
    assert sum(node.op == "GroupParseExample" for node in rewritten.node) == 1
    feed = {"serialized:0": rows, "names:0": names}
    return [_outcome(each, outputs, feed) for each in (graph_def, rewritten)]


def _parts(feature: Any) -> Any:
    is_sparse = isinstance(feature, tf.SparseTensor)
    return [feature.indices, feature.values, feature.dense_shape] if is_sparse else [feature]


def _outcome(graph_def: Any, outputs: List[str], feed: Dict[str, Any]) -> Any:
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf.Session(graph=graph) as session:
            parse = session.make_callable(outputs, list(feed))
            try:
                return [array.tolist() for array in parse(*feed.values())]
            except tf.errors.OpError as error:
                return type(error).__name__, _cause(error.message)
            except UnicodeDecodeError as error:  # a message with bytes that are no text
                return type(error).__name__, _cause(error.object.decode("latin-1"))


def _cause(message: str) -> str:
    """What the op says, without the node's name around it."""
    return message.partition("[[")[0].strip().rpartition("\n")[2]


def example(features: List[Feature]) -> bytes:
    """A serialized Example; a feature's kind is that of its first value."""
    made = {}
    for name, values in features:
        feature = tf.train.Feature()
        if values and isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.bytes_list.value.extend(values)
        made[name] = feature
    return bytes(tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString())


WHOLE: List[Feature] = [("required", [7, -1])]
_VALUES = {
    tf.int64: st.integers(-(2**63), 2**63 - 1),
    tf.float32: st.floats(width=32, allow_nan=False),
    tf.string: st.binary(max_size=20),
}


@st.composite
def _usual(draw: Any) -> bytes:
    features = [("required", draw(st.lists(_VALUES[tf.int64], min_size=2, max_size=2)))]
    for name, dtype in SPARSE:
        if draw(st.booleans()):
            values = draw(st.lists(_VALUES[dtype], max_size=4))
            features.append((name, values)) if values else None
    if draw(st.booleans()):
        features.append(("padded", [draw(_VALUES[tf.float32])]))
    if draw(st.booleans()):
        features.append(("matrix", draw(st.lists(_VALUES[tf.string], min_size=2, max_size=2))))
    if draw(st.booleans()):
        features.append(("unknown", draw(st.lists(_VALUES[tf.string], max_size=3))))
    return example(draw(st.permutations(features)))


@example_share(0.4)
@given(st.lists(_usual(), max_size=12))
def test_usual_examples(rows: List[bytes]) -> None:
    stock, ours = parsed_by_both(np.array(rows, object))
    assert stock == ours
    assert not isinstance(stock, tuple)


@example_share(0.4)
@given(st.lists(st.one_of(_usual(), st.binary(max_size=40)), min_size=1, max_size=4), st.data())
def test_whatever_bytes(rows: List[bytes], data: Any) -> None:
    cut = [row[: data.draw(st.integers(0, len(row)))] for row in rows]
    stock, ours = parsed_by_both(np.array(cut, object))
    assert stock == ours


UNUSUAL = {
    "no row": [],
    "an empty example": [b""],
    "a required feature is missing": [example([])],
    "a feature of another kind": [example([*WHOLE, ("s0", [1.5])])],
    "too many dense values": [example([("required", [1, 2, 3])])],
    "an empty list": [example([*WHOLE, ("s2", [])])],
    "features in two messages": [example(WHOLE) + example([("s0", [1, 2])])],
    "a feature twice": [example([*WHOLE, ("s0", [1])]) + example([("s0", [2, 3])])],
    # features { feature { key: "s0" value { int64_list { value: 5 value: 6 } } } }
    "numbers one by one": [
        example(WHOLE) + b"\x0a\x0e\x0a\x0c\x0a\x02s0\x12\x06\x1a\x04\x08\x05\x08\x06"
    ],
    "many rows, of which one is cut": [*[example(WHOLE)] * 300, example(WHOLE)[:-1]],
    "many rows": [
        example([*WHOLE, ("s0", [i] * (1 + i % 7)), ("s2", [b"x" * i])]) for i in range(900)
    ],
}


@pytest.mark.parametrize("case", sorted(UNUSUAL))
def test_unusual_examples(case: str) -> None:
    rows = UNUSUAL[case]
    stock, ours = parsed_by_both(np.array(rows, object))
    assert stock == ours


def test_errors_have_the_names_of_examples() -> None:
    stock, ours = parsed_by_both(np.array([example(WHOLE), b""], object), ["first", "second"])
    assert stock == ours
    assert "second" in ours[1] and "required" in ours[1]


@pytest.mark.skipif(not hasattr(tf.raw_ops, "ParseExampleV2"), reason="TensorFlow 1 needs a batch")
def test_one_example_without_a_batch() -> None:
    stock, ours = parsed_by_both(np.array(example([*WHOLE, ("s0", [4, 5])]), object))
    assert stock == ours
    assert not isinstance(stock, tuple)


def test_rows_in_a_matrix_are_refused() -> None:
    _, ours = parsed_by_both(np.array([[example(WHOLE)]], object))
    assert ours[0] == "InvalidArgumentError"
    assert "serialized has shape [1,1]; need a scalar or a vector" in ours[1]


def _parsing(specification: Dict[str, Any]) -> Planned:
    with tf.Graph().as_default() as graph:
        features = tf.io.parse_example(tf.placeholder(tf.string, [None]), specification)
        outputs = [tf.identity(part).name for name in features for part in _parts(features[name])]
    return served(graph.as_graph_def(add_shapes=True), outputs)


def test_what_only_tensorflow_parses_is_told() -> None:
    usual: Dict[str, Any] = {name: tf.VarLenFeature(tf.int64) for name in "abcdefgh"}
    padded = tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True)
    planned = _parsing({**usual, "padded": padded})
    assert not planned.rewrites
    (told,) = planned.report.changes
    assert told.startswith("TensorFlow parses the Examples of 'ParseExample/ParseExample")
    assert told.endswith("it has dense features of variable length")


def test_no_dense_feature_is_needed() -> None:
    planned = _parsing({name: tf.VarLenFeature(tf.int64) for name in "abcdefgh"})
    assert planned.report.changes == ("Examples of 8 features parsed by an op of ours",)


def test_few_features_are_parsing() -> None:
    planned = _parsing({name: tf.VarLenFeature(tf.int64) for name in "abc"})
    assert not planned.rewrites and not planned.report.changes
