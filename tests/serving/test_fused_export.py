"""What is exported predicts as before, to the bit, with one op in place of all lookups."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.saved_models import parse_saved_model
from graph_opt.serving.compared_predictions import compare_predictions
from tests.serving.models_to_serve import MODELS, Model, of_examples, of_placeholders, save

FUSED = ["serve", "graph_opt"]


def lookups_in(meta_graph: Any) -> Dict[str, int]:
    """Numbers of fused ops and of gathers."""
    ops = [node.op for node in meta_graph.graph_def.node]
    return {
        "fused": sum(op.endswith("GroupEmbeddingLookup") for op in ops),
        "pooled": sum(op.startswith("SparseSegment") for op in ops),
    }


@pytest.mark.parametrize("name", sorted(MODELS))
def test_predictions_are_those_of_the_model(name: str, tmp_path: Path) -> None:
    request = save(MODELS[name], tmp_path / "model")
    exported = graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"))
    assert exported.report.fused and not exported.report.refusals
    stock, fused = parse_saved_model(str(tmp_path / "served")).meta_graphs
    assert lookups_in(stock)["fused"] == 0
    assert lookups_in(fused)["fused"] == len({one.group for one in exported.report.fused})
    assert lookups_in(fused)["pooled"] == 0
    assert exported.fused_nodes < exported.stock_nodes == len(stock.graph_def.node)
    one_row = {name: array[:1] for name, array in request.items()}
    compared = compare_predictions(str(tmp_path / "served"), [request, one_row])
    assert [each.difference for each in compared] == [0.0] * len(compared) and compared


def test_features_that_requests_feed_together_are_one_op(tmp_path: Path) -> None:
    save(of_placeholders, tmp_path / "model")
    exported = graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"))
    _, fused = parse_saved_model(str(tmp_path / "served")).meta_graphs
    assert lookups_in(fused)["fused"] == 1
    library = os.path.basename(exported.library)
    assert str(exported) == (
        "4 of 4 lookups fused into 1 op; {:,} nodes in place of {:,}\n"
        "tags serve: in TensorFlow's own ops, as before\n"
        "tags serve,graph_opt: fused; load {} first"
    ).format(
        exported.fused_nodes,
        exported.stock_nodes,
        os.path.join(str(tmp_path), "served", "assets.extra", library),
    )


def test_what_other_requests_need_stays_apart(tmp_path: Path) -> None:
    """A request of one signature need not feed what only another one needs."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = of_placeholders()
        session.run(tf.global_variables_initializer())
        build = tf.saved_model.predict_signature_def
        first = {"f0": model.inputs["f0"]}
        builder = tf.saved_model.Builder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "all": build(model.inputs, {"scores": model.outputs["scores"]}),
                "first": build(first, {"first": model.outputs["first"]}),
            },
        )
        builder.save()
    graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"))
    _, fused = parse_saved_model(str(tmp_path / "served")).meta_graphs
    assert lookups_in(fused)["fused"] == 2
    for request in (model.request, {"f0": model.request["f0"]}):
        compared = compare_predictions(str(tmp_path / "served"), [request])
        assert compared and all(each.difference == 0.0 for each in compared)


def test_the_models_own_graph_and_files_are_as_they_were(tmp_path: Path) -> None:
    save(of_examples, tmp_path / "model")
    extra = tmp_path / "model" / "assets.extra"
    extra.mkdir()
    (extra / "warmup").write_bytes(b"requests")
    (before,) = parse_saved_model(str(tmp_path / "model")).meta_graphs
    graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "a" / "served"))
    served = tmp_path / "a" / "served"
    assert parse_saved_model(str(served)).meta_graphs[0] == before
    assert (served / "assets.extra" / "warmup").read_bytes() == b"requests"
    assert os.listdir(str(tmp_path / "a")) == ["served"]


def test_a_vocabulary_file_is_an_asset(tmp_path: Path) -> None:
    def of_file() -> Model:
        (tmp_path / "words").write_text("a\nb\nc\n")
        column = tf.feature_column.categorical_column_with_vocabulary_file(
            "word", str(tmp_path / "words"), 3, num_oov_buckets=2
        )
        words = tf.placeholder(tf.string, [None], name="words")
        columns = [tf.feature_column.embedding_column(column, 4)]
        rows = tf.feature_column.input_layer({"word": words}, columns)
        tf.add_to_collection("results", rows)
        return Model({"word": words}, {"rows": rows}, {"word": np.array(["c", "?", ""], object)})

    with tf.Graph().as_default(), tf.Session() as session:
        made = of_file()
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        builder = tf.saved_model.Builder(str(tmp_path / "model"))
        signature = tf.saved_model.predict_signature_def(made.inputs, made.outputs)
        builder.add_meta_graph_and_variables(
            session,
            ["serve", "cpu"],
            {"serving_default": signature},
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.tables_initializer(),
        )
        builder.save()
    os.remove(str(tmp_path / "words"))
    exported = graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"))
    assert exported.fused_tags == ("serve", "cpu", "graph_opt")
    (compared,) = compare_predictions(str(tmp_path / "served"), [made.request])
    assert compared.difference == 0.0 and compared.values == 12


def test_it_says_why_nothing_is_fused_and_writes_nothing(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2])
        y = tf.layers.dense(x, 1)
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, str(tmp_path / "model"), {"x": x}, {"y": y})
    with pytest.raises(tf.errors.FailedPreconditionError, match="no lookup can be fused"):
        graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"))
    assert os.listdir(str(tmp_path)) == ["model"]


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    save(of_placeholders, tmp_path / "model")
    (tmp_path / "served").mkdir()
    with pytest.raises(tf.errors.AlreadyExistsError, match="served: exists already"):
        graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"))


def test_an_export_is_not_exported_again(tmp_path: Path) -> None:
    save(of_placeholders, tmp_path / "model")
    graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "once"))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="graphs tagged serve / graph_opt,serve"
    ):
        graph_opt.export_fused(str(tmp_path / "once"), str(tmp_path / "twice"))
    with pytest.raises(tf.errors.FailedPreconditionError, match="were fused before"):
        graph_opt.export_fused(str(tmp_path / "once"), str(tmp_path / "twice"), tags=FUSED)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the model that it was made from"):
        graph_opt.export_fused(str(tmp_path / "once"), str(tmp_path / "twice"), tags=["serve"])


def test_only_some_tables_are_fused(tmp_path: Path) -> None:
    request = save(of_placeholders, tmp_path / "model")
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.group_embedding_options.lookups.append("f[01]")
    options.do_async_embedding = True  # has no effect
    exported = graph_opt.export_fused(
        str(tmp_path / "model"), str(tmp_path / "served"), config=config
    )
    assert len(exported.report.fused) == 2
    assert compare_predictions(str(tmp_path / "served"), [request])[0].difference == 0.0


def test_an_estimators_export(tmp_path: Path) -> None:
    if not hasattr(tf, "estimator"):
        pytest.skip("TensorFlow {} has no Estimators".format(tf.version.VERSION))
    columns = [
        tf.feature_column.embedding_column(
            tf.feature_column.categorical_column_with_hash_bucket(name, 50), 4
        )
        for name in ("city", "kind")
    ]

    def batch() -> Any:
        features = {"city": [["a"], ["b"]], "kind": [["x"], ["y"]]}
        return tf.data.Dataset.from_tensors((features, [[0], [1]]))

    estimator = tf.estimator.DNNClassifier([4], columns, str(tmp_path / "trained"))
    estimator.train(batch, steps=1)
    spec = tf.feature_column.make_parse_example_spec(columns)
    receive = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    written = estimator.export_saved_model(str(tmp_path / "exports"), receive).decode()
    exported = graph_opt.export_fused(written, str(tmp_path / "served"))
    assert len(exported.report.fused) == 2
    example = tf.train.Example()
    example.features.feature["city"].bytes_list.value.append(b"a")
    serialized = np.array([example.SerializeToString(), b""], object)
    compared = compare_predictions(
        str(tmp_path / "served"), [{"examples": serialized, "inputs": serialized}]
    )
    assert {each.signature for each in compared} >= {"predict", "serving_default"}
    assert all(each.difference == 0.0 for each in compared)
