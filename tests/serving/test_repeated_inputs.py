"""Exports that compute once what is the same in all rows of a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

import graph_opt
from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.compat.saved_models import parse_saved_model
from graph_opt.serving.compared_predictions import compare_predictions
from graph_opt.serving.repeated_requests import repeated_inputs, with_first_row
from tests.export.served_model import load_without_graph_opt
from tests.serving.models_to_serve import Model, of_examples, of_placeholders, save

ROWS = 7
ROUNDING = 1e-6  # of the largest value: products of one row are added in another order


def of_user_and_item() -> Model:
    """A user's history, a feature of the user, and items."""
    random = np.random.RandomState(3)
    history = tf.placeholder(tf.int64, [None, 5], "history")
    age = tf.placeholder(tf.float32, [None], "age")
    item = tf.placeholder(tf.int64, [None], "item")
    table = tf.get_variable("table", [50, 4], initializer=tf.random_normal_initializer(seed=1))
    seen, rows = tf.nn.embedding_lookup(table, history), tf.nn.embedding_lookup(table, item)
    user = tf.layers.dense(tf.concat([tf.layers.flatten(seen), age[:, None]], 1), 6, tf.nn.relu)
    weights = tf.nn.softmax(tf.reduce_sum(seen * rows[:, None, :], 2))
    pooled = tf.reduce_sum(seen * weights[:, :, None], 1)
    scores = tf.layers.dense(tf.concat([user, rows, pooled], 1), 1)
    request = {
        "history": np.repeat(random.randint(0, 50, [1, 5]), ROWS, 0),
        "age": np.full([ROWS], 0.3, np.float32),
        "item": random.randint(0, 50, ROWS),
    }
    inputs = {"history": history, "age": age, "item": item}
    return Model(inputs, {"scores": scores, "user": user}, request)


def of_examples_of_fixed_length() -> Model:
    """Serialized examples with dense features, and one of any length."""
    random = np.random.RandomState(5)
    examples = tf.placeholder(tf.string, [None], "examples")
    spec = {
        "history": tf.io.FixedLenFeature([5], tf.int64),
        "item": tf.io.FixedLenFeature([], tf.int64),
        "tags": tf.io.VarLenFeature(tf.int64),
    }
    features = tf.io.parse_example(examples, spec)
    table = tf.get_variable("table", [50, 4], initializer=tf.random_normal_initializer(seed=1))
    seen = tf.nn.embedding_lookup(table, features["history"])
    tags = tf.nn.safe_embedding_lookup_sparse(table, features["tags"])
    item = tf.nn.embedding_lookup(table, features["item"])
    scores = tf.reduce_sum(tf.tanh(tf.reduce_sum(seen, 1)) * item + tags, 1)
    rows: List[bytes] = []
    for row in range(ROWS):
        example = tf.train.Example()
        feature = example.features.feature
        feature["history"].int64_list.value.extend(random.randint(0, 50, 5))
        feature["item"].int64_list.value.append(random.randint(0, 50))
        feature["tags"].int64_list.value.extend(random.randint(0, 50, row % 3))
        rows.append(example.SerializeToString())
    return Model({"examples": examples}, {"scores": scores}, {"examples": np.array(rows, object)})


def nodes_of(folder: Path) -> Dict[str, Any]:
    """The nodes of the graph with fused lookups."""
    _, fused = parse_saved_model(str(folder)).meta_graphs
    return {node.name: node for node in fused.graph_def.node}


def require_close(folder: Path, request: Any) -> None:
    """Fails unless both graphs predict the same, for requests of all rows and of one."""
    one_row = {name: array[:1] for name, array in request.items()}
    compared = compare_predictions(str(folder), [request, one_row])
    assert compared and all(each.difference <= ROUNDING for each in compared), compared


def test_a_user_is_looked_up_and_computed_once(tmp_path: Path) -> None:
    request = save(of_user_and_item, tmp_path / "model")
    exported = graph_opt.export_fused(
        str(tmp_path / "model"), str(tmp_path / "served"), repeated=["history", "age"]
    )
    (line,) = exported.once
    assert "nodes computed once for history, age, " in line and line in str(exported)
    assert not exported.report.refusals
    stock, fused = parse_saved_model(str(tmp_path / "served")).meta_graphs
    assert repeated_inputs(fused) == ["history", "age"] and not repeated_inputs(stock)
    nodes = nodes_of(tmp_path / "served")
    assert "repeated_rows/first_row/dense/MatMul" in nodes and "dense/MatMul" not in nodes
    assert sum(node.op.endswith("GroupEmbeddingLookup") for node in nodes.values()) == 1
    require_close(tmp_path / "served", request)


def test_features_of_examples_are_repeated_by_their_names(tmp_path: Path) -> None:
    request = save(of_examples_of_fixed_length, tmp_path / "model")
    exported = graph_opt.export_fused(
        str(tmp_path / "model"), str(tmp_path / "served"), repeated=["history"]
    )
    assert "computed once for history" in exported.once[0]
    assert not np.array_equal(with_first_row(request, ["history"])["examples"], request["examples"])
    require_close(tmp_path / "served", request)


COLUMNS = ["city", "kind", "ids", "weights", "seen", "age"]


@pytest.mark.parametrize("names", [["city"], ["ids", "weights"], ["seen", "bought"], COLUMNS])
def test_columns_of_any_number_of_values_are_looked_up_once(
    names: List[str], tmp_path: Path
) -> None:
    request = save(of_examples, tmp_path / "model")
    exported = graph_opt.export_fused(
        str(tmp_path / "model"), str(tmp_path / "served"), repeated=names
    )
    assert "computed once for" in exported.once[0] and not exported.report.refusals
    served = str(tmp_path / "served")
    for first in range(4):  # The first row has the user: with and without values.
        rows = {"examples": request["examples"][first:]}
        require_close(tmp_path / "served", rows)
        with pytest.raises(tf.errors.InvalidArgumentError, match="rows of the request differ"):
            run_fused(served, rows)


def run_fused(folder: str, request: Dict[str, np.ndarray]) -> Any:
    """Runs a request as it is."""
    _, fused = parse_saved_model(folder).meta_graphs
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, list(fused.meta_info_def.tags), folder)
        signature = fused.signature_def["serving_default"]
        feeds = {signature.inputs[name].name: array for name, array in request.items()}
        return session.run(signature.outputs["scores"].name, feeds)


@pytest.mark.parametrize(
    "build, name, message",
    [
        (of_user_and_item, "user", "'user' is no input of a signature .* age, history, item"),
        (of_examples, "none", "no feature of its examples: there are examples, .*city"),
    ],
)
def test_wrong_names_are_told(build: Any, name: str, message: str, tmp_path: Path) -> None:
    save(build, tmp_path / "model")
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"), repeated=[name])
    assert not (tmp_path / "served").exists()


def test_pooled_lookups_of_repeated_ids_are_fused(tmp_path: Path) -> None:
    request = save(of_placeholders, tmp_path / "model")
    exported = graph_opt.export_fused(
        str(tmp_path / "model"), str(tmp_path / "served"), repeated=["f0", "f1"]
    )
    assert len(exported.report.fused) == 4 and not exported.report.refusals
    require_close(tmp_path / "served", request)


def test_a_model_without_lookups_is_exported(tmp_path: Path) -> None:
    def of_layers() -> Model:
        user, item = (tf.placeholder(tf.float32, [None, 4], name) for name in ("user", "item"))
        layer = tf.layers.dense(user, 8, tf.nn.relu)
        scores = tf.layers.dense(tf.concat([layer, item], 1), 1)
        rows = np.random.RandomState(1).rand(ROWS, 4).astype(np.float32)
        return Model({"user": user, "item": item}, {"y": scores}, {"user": rows, "item": rows})

    request = save(of_layers, tmp_path / "model")
    exported = graph_opt.export_fused(
        str(tmp_path / "model"), str(tmp_path / "served"), repeated=["user"]
    )
    assert str(exported).count("computed once for user") == 1
    require_close(tmp_path / "served", request)


def test_commands_export_and_check(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    request = save(of_user_and_item, tmp_path / "model")
    served, file = str(tmp_path / "served"), str(tmp_path / "requests.npz")
    request["age"] = np.arange(ROWS).astype(np.float32)
    np.savez(file, **request)
    command = ["export", str(tmp_path / "model"), "-o", served, "--repeated", "history,age"]
    assert main(command) == 0
    assert "computed once for history, age" in capsys.readouterr().out
    assert main(["check", "--requests", file, served]) == 0
    assert "requests compared" in capsys.readouterr().out
    assert main([*command[:-1], "history,who", "-o", served + "2"]) == 2
    assert "'who' is no input" in capsys.readouterr().err


def test_a_process_without_graph_opt_serves_and_refuses(tmp_path: Path) -> None:
    request = save(of_user_and_item, tmp_path / "model")
    exported = graph_opt.export_fused(
        str(tmp_path / "model"), str(tmp_path / "served"), repeated=["history", "age"]
    )
    feed = {name: array.tolist() for name, array in request.items()}
    other = {**feed, "age": [0.3] * (ROWS - 1) + [0.4]}
    fewer = {**feed, "age": [0.3] * (ROWS - 1)}
    asked = [
        {
            "kind": "saved_model", "path": str(tmp_path / "served"), "tags": tags,
            "feed": fed, "fetch": "scores", "library": exported.library,
        }
        for tags in (exported.stock_tags, exported.fused_tags)
        for fed in (feed, other, fewer, feed)
    ]  # fmt: skip
    answers = load_without_graph_opt(asked, tmp_path)
    stock, fused = answers[:4], answers[4:]
    np.testing.assert_allclose(fused[0], stock[0], rtol=1e-5, atol=1e-6)
    assert fused[1].startswith("InvalidArgumentError") and "differ in age, but" in fused[1]
    assert fused[2].startswith("InvalidArgumentError") and "InvalidArgumentError" in stock[2]
    assert fused[3] == fused[0]
