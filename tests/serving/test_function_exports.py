"""SavedModels of TensorFlow 2 and Keras, whose lookups are in functions, are fused like others."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.saved_models import parse_saved_model
from graph_opt.serving.compared_predictions import compare_predictions
from tests.export.served_model import load_without_graph_opt
from tests.forked_programs import run_forked
from tests.serving.function_models import LOOKUPS, change, ops_of, predicted, write

CALLS = ("StatefulPartitionedCall", "PartitionedCall")


def export(folder: Path, **options: Any) -> Any:
    return graph_opt.export_fused(str(folder / "model"), str(folder / "served"), **options)


def compared(folder: Path, request: Dict[str, np.ndarray]) -> float:
    """The largest difference from the stock graph, for a row and for all."""
    one_row = {name: array[:1] for name, array in request.items()}
    found = compare_predictions(str(folder / "served"), [request, one_row])
    return max(each.beyond_tables for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("model", sorted(LOOKUPS))
@pytest.mark.parametrize("options", [{}, {"map_tables": True}, {"table_dtype": "int8"}],
                         ids=["variables", "mapped", "int8"])  # fmt: skip
def test_predictions_are_those_of_the_model(
    model: str, options: Dict[str, Any], tmp_path: Path
) -> None:
    request = write(model, tmp_path)
    (before,) = parse_saved_model(str(tmp_path / "model")).meta_graphs
    exported = export(tmp_path, **options)
    assert len(exported.report.fused) == LOOKUPS[model], str(exported)
    stock, fused = parse_saved_model(str(tmp_path / "served")).meta_graphs
    assert stock == before
    assert not set(CALLS).intersection(node.op for node in fused.graph_def.node)
    assert not [op for op in ops_of(fused) if op.startswith(("SparseSegment", "ResourceGather"))]
    assert exported.stock_nodes > len(stock.graph_def.node)
    assert compared(tmp_path, request) == 0.0


def test_a_module_is_served_without_graph_opt(tmp_path: Path) -> None:
    request = write("module", tmp_path)
    exported = export(tmp_path)
    assert "calls of functions replaced by what they compute\n" in str(exported)
    good = {"items": request["items"].tolist(), "words": request["words"].astype(str).tolist()}
    too_many = {"items": [[1, 2]] * 500, "words": ["a"] * 500}
    too_large = {"items": [[1, 50]], "words": ["a"]}
    asked = [
        {
            "kind": "saved_model",
            "path": str(tmp_path / "served"),
            "tags": tags,
            "feed": dict(feed),
            "fetch": "scores",
            "library": exported.library,
        }
        for tags in (exported.stock_tags, exported.fused_tags)
        for feed in (good, too_many, too_large, good)
    ]
    answers = load_without_graph_opt(asked, tmp_path)
    stock, fused = answers[:4], answers[4:]
    assert stock[0] == fused[0] == fused[3]
    assert "too many items" in stock[1] and "too many items" in fused[1]
    assert fused[2].startswith("InvalidArgumentError") and "'items'" in fused[2]


def test_tensorflow_2_loads_the_export(tmp_path: Path) -> None:
    request = write("module", tmp_path)
    exported = export(tmp_path, map_tables=True)
    program = """
import numpy as np
import tensorflow as tf
tf.load_op_library({library!r})
request = np.load("request.npz")
for tags in {tags!r}:
    model = tf.saved_model.load({folder!r}, tags=tags)
    found = model.signatures["serving_default"](
        items=tf.constant(request["items"]), words=tf.constant(request["words"])
    )
    np.savez("-".join(tags) + ".npz", **{{name: one.numpy() for name, one in found.items()}})
"""
    tags = [list(exported.stock_tags), list(exported.fused_tags)]
    text = program.format(library=exported.library, folder=str(tmp_path / "served"), tags=tags)
    ended = run_forked(text, tmp_path)
    assert ended.returncode == 0, ended.stderr
    expected = predicted(str(tmp_path / "model"), ["serve"], request)
    for name in ("serve.npz", "serve-graph_opt.npz"):
        with np.load(str(tmp_path / name)) as found:
            for output, values in expected.items():
                np.testing.assert_array_equal(found[output], values, name)


@pytest.mark.slow
@pytest.mark.parametrize("table_dtype", ["", "int8"])
def test_tables_are_updated_from_another_saved_model(table_dtype: str, tmp_path: Path) -> None:
    request = write("module", tmp_path)
    exported = export(tmp_path, map_tables=True, table_dtype=table_dtype)
    written = graph_opt.update_served(str(tmp_path / "served"), [change(tmp_path)])
    assert len(written.replaced) == 2 and not written.missing
    found = predicted(str(tmp_path / "served"), exported.fused_tags, request)
    expected = predicted(str(tmp_path / "changed"), ["serve"], request)
    for name, values in expected.items():
        if table_dtype:
            np.testing.assert_allclose(found[name], values, rtol=0.02)
        else:
            np.testing.assert_array_equal(found[name], values)


@pytest.mark.slow
def test_repeated_inputs_of_a_keras_model_are_computed_once(tmp_path: Path) -> None:
    request = write("embeddings", tmp_path)
    exported = export(tmp_path, repeated=["user", "seen"])
    assert "nodes computed once for user, seen" in str(exported)
    for each in compare_predictions(str(tmp_path / "served"), [request]):
        assert each.difference < 1e-5


def test_a_lookup_in_a_conditional_stays_as_it_is(tmp_path: Path) -> None:
    program = """
import numpy as np
import tensorflow as tf
table = tf.Variable(np.arange(40, dtype=np.float32).reshape([10, 4]), name="table")
module = tf.Module()
module.table = table

@tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "ids")])
def rows(ids):
    return tf.cond(tf.size(ids) > 2, lambda: tf.gather(table, ids), lambda: tf.gather(table, [0]))

tf.saved_model.save(module, "model", signatures=rows)
"""
    ended = run_forked(program, tmp_path)
    assert ended.returncode == 0, ended.stderr
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"(?s)can be fused.*table table"):
        export(tmp_path)
    assert not (tmp_path / "served").exists()
