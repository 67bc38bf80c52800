"""Exports with tables of float16, bfloat16 and int8: what they predict, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

import graph_opt
from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.serving.compared_predictions import compare_predictions
from graph_opt.serving.table_lists import export_list
from graph_opt.table_files.low_precision_names import LOW_PRECISION
from graph_opt.table_files.mapped_files import MappedTable
from tests.export.served_model import load_without_graph_opt
from tests.json_documents import validated
from tests.release_features import roots_are_exact
from tests.serving.models_to_serve import MODELS, Arrays, Model, of_placeholders, save

WIDTHS = [2, 3, 8, 10, 17, 64]
ROWS = 50


def of_sums(rows: int = ROWS) -> Model:
    """Bags of none to four ids in tables of several widths; one is shared, one in three parts."""
    ids = tf.placeholder(tf.int64, [None, 4], name="ids")
    sparse = tf.SparseTensor(tf.where(ids >= 0), tf.gather_nd(ids, tf.where(ids >= 0)),
                             tf.shape(ids, out_type=tf.int64))  # fmt: skip
    outputs = {}
    for width in WIDTHS:
        table = tf.get_variable(
            "table{}".format(width), [rows, width],
            initializer=tf.random_normal_initializer(seed=width),
            partitioner=tf.fixed_size_partitioner(3) if width == 10 and rows > 3 else None,
        )  # fmt: skip
        outputs["sum{}".format(width)] = pooled(table, sparse, "sum")
        if width == 8:
            outputs["mean8"] = pooled(table, sparse, "mean")
            weights = tf.SparseTensor(sparse.indices, tf.ones_like(sparse.values, tf.float32) / 3,
                                      sparse.dense_shape)  # fmt: skip
            outputs["weighted8"] = tf.nn.safe_embedding_lookup_sparse(
                table, sparse, weights, combiner="sqrtn" if roots_are_exact() else "mean"
            )
    request = np.random.RandomState(1).randint(-2, rows, [40, 4])
    request[3] = -1  # an empty bag
    return Model({"ids": ids}, outputs, {"ids": request})


def pooled(table: Any, sparse: Any, combiner: str) -> tf.Tensor:
    return tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner=combiner)


def exported(model: Callable[[], Model], folder: Path, dtype: str, **options: Any) -> Any:
    """Exports a model; returns what `export_fused` does."""
    save(model, folder / "model")
    return graph_opt.export_fused(
        str(folder / "model"), str(folder / "served"), table_dtype=dtype, **options
    )


def predicted(folder: Path, tags: List[str], request: Arrays, change: Any = None) -> Arrays:
    """Predictions of one graph of an export, after a change of its session."""
    graph_opt.load_op_library()
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.loader.load(session, tags, str(folder))
        if change is not None:
            change(session)
        signature = loaded.signature_def["serving_default"]
        feeds = {info.name: request[key] for key, info in signature.inputs.items()}
        fetches = {key: info.name for key, info in signature.outputs.items()}
        found: Dict[str, np.ndarray] = session.run(fetches, feeds)
    return found


@pytest.mark.parametrize("map_tables", [False, True])
@pytest.mark.parametrize("dtype", LOW_PRECISION)
@pytest.mark.parametrize("name", [*sorted(MODELS), "sums"])
def test_predictions_are_those_of_the_stored_values(
    name: str, dtype: str, map_tables: bool, tmp_path: Path
) -> None:
    """TensorFlow's own ops predict the same to the bit from what the stored rows stand for."""
    model = {**MODELS, "sums": of_sums}[name]
    served = exported(model, tmp_path, dtype, map_tables=map_tables)
    assert served.mapped[-1].split(": ")[0].endswith("stored as " + dtype)
    with tf.Graph().as_default():
        request = model().request
    for each in compare_predictions(str(tmp_path / "served"), [request]):
        assert each.table_dtype == dtype and each.beyond_tables == 0.0, each
        assert 0.0 < each.difference < 0.05, each
        assert 0.0 < each.mean_apart < each.apart


def test_differences_of_int8_are_at_most_half_a_scale_for_each_row(tmp_path: Path) -> None:
    exported(of_sums, tmp_path, "int8")
    with tf.Graph().as_default():
        request = of_sums().request
    half_scales = {}

    def to_half_scales(session: Any) -> None:
        for variable in tf.global_variables():
            values = session.run(variable)
            scale = np.abs(values).max(axis=1, keepdims=True) / 127 / 2
            half_scales[variable.op.name] = scale
            variable.load(np.broadcast_to(scale, values.shape), session)

    exact = predicted(tmp_path / "served", ["serve"], request)
    bounds = predicted(tmp_path / "served", ["serve"], request, to_half_scales)
    found = predicted(tmp_path / "served", ["serve", "graph_opt"], request)
    for name, values in exact.items():
        assert np.all(np.abs(found[name] - values) <= bounds[name] * (1 + 1e-4) + 1e-6), name
        assert not found[name][3].any()  # the empty bag


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits_are_a_cast_of_the_tables(dtype: str, tmp_path: Path) -> None:
    exported(of_sums, tmp_path, dtype)
    with tf.Graph().as_default():
        request = of_sums().request

    def cast(session: Any) -> None:
        for variable in tf.global_variables():
            rounded = tf.cast(tf.cast(variable, tf.as_dtype(dtype)), tf.float32)
            variable.load(session.run(rounded), session)

    expected = predicted(tmp_path / "served", ["serve"], request, cast)
    found = predicted(tmp_path / "served", ["serve", "graph_opt"], request)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, name)


def test_files_have_the_rows_and_the_checkpoint_is_as_it_was(tmp_path: Path) -> None:
    served = exported(of_sums, tmp_path, "int8")
    tables = [MappedTable(path) for path in export_list(str(tmp_path / "served")).paths]
    assert {table.head.dtype for table in tables} == {tf.int8}
    assert sorted(table.head.row_bytes for table in tables) == sorted(
        4 + width for width in [*WIDTHS, 10, 10]
    )
    before, after = 4 * ROWS * sum(WIDTHS), ROWS * sum(4 + width for width in WIDTHS)
    assert sum(table.head.num_rows * table.head.row_bytes for table in tables) == after < before
    assert "8 tables stored as int8" in served.mapped[0] and "% of the largest" in served.mapped[0]
    files = sorted(os.listdir(str(tmp_path / "model" / "variables")))
    for name in files:
        copied = tmp_path / "served" / "variables" / name
        assert copied.read_bytes() == (tmp_path / "model" / "variables" / name).read_bytes()


@pytest.mark.parametrize("rows", [1, 2])
def test_small_tables_and_rows_of_zeros(rows: int, tmp_path: Path) -> None:
    def model() -> Model:
        made = of_sums(rows)
        zeros = tf.get_variable("zeros", [rows, 4], initializer=tf.zeros_initializer())
        row = tf.nn.embedding_lookup(zeros, made.inputs["ids"][:, 0] * 0, name="row")
        return made._replace(outputs={**made.outputs, "zeros": tf.identity(row)})

    exported(model, tmp_path, "int8")
    with tf.Graph().as_default():
        request = of_sums(rows).request
    found = predicted(tmp_path / "served", ["serve", "graph_opt"], request)
    assert not found["zeros"].any()
    none = {"ids": request["ids"][:0]}
    assert predicted(tmp_path / "served", ["serve", "graph_opt"], none)["sum8"].shape == (0, 8)


def test_tables_that_others_read_stay_as_they_are(tmp_path: Path) -> None:
    def model() -> Model:
        made = of_sums()
        (table,) = [one for one in tf.global_variables() if one.op.name == "table3"]
        narrow = tf.get_variable("narrow", [ROWS, 1])
        number = tf.nn.embedding_lookup(narrow, tf.abs(made.inputs["ids"][:, 0]), name="number")
        whole = tf.reduce_sum(table, 0, name="whole")
        return made._replace(outputs={**made.outputs, "whole": whole, "narrow": number})

    served = exported(model, tmp_path, "int8")
    assert served.mapped[1:] == [
        "table3 stays as before: table3/read (Identity) reads it, too",
        "narrow stays as before: a row takes 4 bytes, and 5 as int8",
    ]
    with tf.Graph().as_default():
        request = of_sums().request
    for each in compare_predictions(str(tmp_path / "served"), [request]):
        is_as_before = each.output in ("sum3", "whole", "narrow")
        assert (each.difference == 0.0) == is_as_before and each.beyond_tables == 0.0


@pytest.mark.parametrize(
    "number, dtype, message",
    [
        (np.nan, "int8", "table 'table8' cannot be stored as int8: nan in row 7 is not finite"),
        (1e6, "float16", "1000000.0 in row 7 is not finite in it; bfloat16 has the range"),
    ],
)
def test_numbers_that_are_not_finite_are_refused(
    number: float, dtype: str, message: str, tmp_path: Path
) -> None:
    values = np.ones([ROWS, 8], np.float32)
    values[7, 2] = number

    def model() -> Model:
        ids = tf.placeholder(tf.int64, [None])
        table = tf.get_variable("table8", initializer=values)
        row = tf.nn.embedding_lookup(table, ids)
        return Model({"ids": ids}, {"row": row}, {"ids": np.arange(3)})

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        exported(model, tmp_path, dtype)
    assert os.listdir(str(tmp_path)) == ["model"]


def test_nothing_is_written_if_no_table_can_be_stored_so(tmp_path: Path) -> None:
    def model() -> Model:
        ids = tf.placeholder(tf.int64, [None])
        row = tf.nn.embedding_lookup(tf.get_variable("narrow", [9, 1]), ids)
        return Model({"ids": ids}, {"row": row}, {"ids": np.arange(3)})

    with pytest.raises(tf.errors.FailedPreconditionError, match="no table can be of int8, nothing"):
        exported(model, tmp_path, "int8")
    with pytest.raises(tf.errors.InvalidArgumentError, match="'int4'; need one of float16, bfl"):
        exported(of_placeholders, tmp_path / "other", "int4")


def test_repeated_inputs_may_be_in_low_precision(tmp_path: Path) -> None:
    served = exported(of_placeholders, tmp_path, "int8", repeated=["f0"])
    assert "computed once for f0" in str(served) and "stored as int8" in str(served)
    with tf.Graph().as_default():
        request = of_placeholders().request
    for each in compare_predictions(str(tmp_path / "served"), [request]):
        assert each.difference > each.beyond_tables < 1e-6


def test_a_process_without_graph_opt_serves_them(tmp_path: Path) -> None:
    served = exported(of_sums, tmp_path, "int8")
    bad = [[0, 1, 2, ROWS]]
    rows = [[0, 1, -1, -1], [-1, -1, -1, -1]]
    asked = [
        {
            "kind": "saved_model",
            "path": str(tmp_path / "served"),
            "tags": served.fused_tags,
            "feed": {"ids": ids},
            "fetch": "sum10",
            "library": served.library,
        }
        for ids in (rows, bad, rows)
    ]
    first, error, again = load_without_graph_opt(asked, tmp_path)
    expected = predicted(tmp_path / "served", list(served.fused_tags), {"ids": np.array(rows)})
    assert first == again
    np.testing.assert_array_equal(np.float32(first), expected["sum10"])
    assert error.startswith("InvalidArgumentError") and "'table10'" in error


def test_updates_have_the_dtype_of_the_export(tmp_path: Path) -> None:
    exported(of_sums, tmp_path, "int8")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], str(tmp_path / "model"))
        (table,) = [one for one in tf.global_variables() if one.op.name == "table64"]
        values = session.run(table)
        values[5] *= 3
        table.load(values, session)
        prefix = tf.train.Saver().save(session, str(tmp_path / "later" / "model.ckpt"))
        request = {"ids": np.array([[5, -1, -1, -1], [6, -1, -1, -1]])}
    before = predicted(tmp_path / "served", ["serve", "graph_opt"], request)["sum64"]
    update = graph_opt.update_served(str(tmp_path / "served"), [prefix])
    assert sum(update.patched.values()) == 1 or update.replaced == ["table64"]
    after = predicted(tmp_path / "served", ["serve", "graph_opt"], request)["sum64"]
    np.testing.assert_array_equal(after[1], before[1])
    np.testing.assert_allclose(after[0], before[0] * 3, rtol=1e-6)
    # What was exported is compared, whatever servers start from.
    compared = compare_predictions(str(tmp_path / "served"), [request])
    assert all(each.beyond_tables == 0.0 for each in compared)


def test_differences_are_printed_at_export_and_by_check(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    request = save(of_placeholders, tmp_path / "model")
    np.savez(str(tmp_path / "requests.npz"), **request)
    requests, served = str(tmp_path / "requests.npz"), str(tmp_path / "served")
    command = ["export", str(tmp_path / "model"), "--table-dtype", "int8", "-o"]
    assert main([*command, str(tmp_path / "other")]) == 0
    told = capsys.readouterr().out
    assert "4 tables stored as int8: 2.0 KiB in place of 4.0 KiB; a value is off by" in told
    assert "how much that changes predictions: graph-opt check --requests FILE" in told
    assert main([*command, served, "--requests", requests]) == 0
    exported_lines = capsys.readouterr().out.splitlines()
    report = tmp_path / "result.json"
    check = ["check", "--requests", requests]
    assert main([*check, "--json", str(report), served]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3 requests compared: tables of int8 change predictions by up to ")
    assert lines[0].endswith("TensorFlow's own ops predict the same: equal bit for bit")
    assert exported_lines[-len(lines) :] == lines
    assert "mean difference" in lines[1] and " % (0.0" in lines[2]
    outputs = validated(report.read_text("utf-8"))["outputs"]
    assert all(one["table_dtype"] == "int8" and one["beyond_tables"] == 0.0 for one in outputs)
    assert main([*check, "--tolerance", "0.1", served]) == 0
    capsys.readouterr()
    assert main([*check, "--tolerance", "1e-6", served]) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith("; --tolerance allows 1e-06")
