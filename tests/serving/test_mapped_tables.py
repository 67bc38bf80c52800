"""Exports whose tables are mapped from files, in this process and in servers."""

from __future__ import annotations

import functools
import os
import struct
from pathlib import Path
from typing import Any, Callable

import google_crc32c
import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.serving.compared_predictions import compare_predictions
from graph_opt.serving.table_lists import ASSET, export_list
from tests.forked_programs import run_forked
from tests.serving.mapped_models import (
    Loaded,
    Memory,
    Server,
    assert_predicts,
    export,
    mapped_memory,
    two_tables,
)
from tests.serving.models_to_serve import MODELS, Model, save


@pytest.mark.parametrize("name", sorted(MODELS))
def test_predictions_are_equal_wherever_the_folder_is(name: str, tmp_path: Path) -> None:
    request = save(MODELS[name], tmp_path / "model")
    exported = graph_opt.export_fused(
        str(tmp_path / "model"), str(tmp_path / "served"), map_tables=True
    )
    assert exported.mapped[0].startswith(
        {"examples": "4 tables and 2", "placeholders": "4 tables and 0", "resources": "8 tables"}[
            name
        ]
    )
    moved = tmp_path / "elsewhere" / "moved"
    moved.parent.mkdir()
    (tmp_path / "served").rename(moved)
    assert all(one.difference == 0.0 for one in compare_predictions(str(moved), [request]))


@pytest.mark.parametrize("use_resource", [True, False])
def test_variables_are_read_from_the_files(use_resource: bool, tmp_path: Path) -> None:
    exported = export(functools.partial(two_tables, use_resource=use_resource), tmp_path)
    with Loaded(exported) as loaded:
        assert_predicts(loaded, exported, 0)
        assert mapped_memory(str(exported.folder)).files == 3
    assert exported.lines == ["2 tables and 1 other variable mapped from files, 0.0 MB"]


def test_variables_stay_if_requests_need_more_than_their_values(tmp_path: Path) -> None:
    def model() -> Model:
        made = two_tables()
        (first,) = [one for one in tf.global_variables() if one.op.name == "first"]
        row = tf.raw_ops.ResourceGatherNd(
            resource=first.handle, indices=[[1, 2]], dtype=tf.float32, name="number"
        )
        return made._replace(outputs={**made.outputs, "number": row})

    exported = export(model, tmp_path)
    assert exported.lines[1:] == ["first stays a variable: number (ResourceGatherNd) reads it, too"]
    with Loaded(exported) as loaded:
        assert_predicts(loaded, exported, 0)


def test_a_table_that_is_also_read_as_a_whole_is_mapped(tmp_path: Path) -> None:
    def model() -> Model:
        made = two_tables(rows=16, width=16)
        (first,) = [one for one in tf.global_variables() if one.op.name == "first"]
        scores = tf.matmul(made.outputs["second"], first, transpose_b=True, name="scores")
        return made._replace(outputs={**made.outputs, "scores": scores})

    exported = export(model, tmp_path)
    assert exported.lines == ["2 tables and 1 other variable mapped from files, 0.0 MB"]
    with Loaded(exported) as loaded:
        assert_predicts(loaded, exported, 0)


def test_what_only_trains_is_left_out(tmp_path: Path) -> None:
    """Adam's updates are deferred, so that lookups beside it would wait for a catch-up."""

    def model() -> Model:
        made = two_tables()
        loss = tf.reduce_sum(made.outputs["first"] ** 2)
        tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
        return made

    exported = export(model, tmp_path)
    with Loaded(exported) as loaded:
        assert_predicts(loaded, exported, 0)
        operations = loaded.session.graph.get_operations()
    assert not [one for one in operations if one.type in ("VarHandleOp", "VariableV2")]
    model_folder = str(tmp_path / "model")
    unmapped = graph_opt.export_fused(model_folder, str(tmp_path / "unmapped"))
    with Server(exported) as server, Server(
        exported._replace(folder=tmp_path / "unmapped", tags=unmapped.fused_tags)
    ) as other:
        for each in (server, other):
            found = each.call("serving_default", exported.request)
            np.testing.assert_array_equal(found["first"], exported.predictions[0]["first"])


def test_a_vocabulary_file_is_an_asset_beside_the_tables(tmp_path: Path) -> None:
    """TensorFlow 1's builder lists assets where loaders look only if there is no other list."""
    words = tmp_path / "words"
    words.write_text("a\nb\n")

    def model() -> Model:
        ids = tf.placeholder(tf.string, [None], "words")
        index = tf.lookup.TextFileIndex
        of_words = tf.lookup.TextFileInitializer(
            str(words), tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER
        )
        rows = tf.lookup.StaticHashTable(of_words, 2).lookup(ids)
        tables = [tf.get_variable(name, [3, 2]) for name in ("first", "second")]
        found = tf.concat([tf.nn.embedding_lookup(table, rows) for table in tables], 1)
        return Model({"words": ids}, {"found": found}, {"words": np.array(["b", "a"], object)})

    with tf.Graph().as_default(), tf.Session() as session:
        made = model()
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        builder = tf.saved_model.Builder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"first": tf.saved_model.predict_signature_def(made.inputs, made.outputs)},
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            legacy_init_op=tf.tables_initializer(),
        )
        builder.save()
    words.unlink()
    graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"), map_tables=True)
    (compared,) = compare_predictions(str(tmp_path / "served"), [made.request])
    assert compared.difference == 0.0 and compared.values == 8


def test_summaries_of_variables_with_conditionals_are_left_out(tmp_path: Path) -> None:
    """As Estimators have them: the context of a conditional names what is removed."""

    def model() -> Model:
        made = two_tables()
        (kernel,) = [one for one in tf.global_variables() if one.op.name == "kernel"]
        tf.summary.scalar("zeros", tf.nn.zero_fraction(kernel))
        return made

    exported = export(model, tmp_path)
    with Loaded(exported) as loaded:
        assert_predicts(loaded, exported, 0)


def test_names_of_the_model_are_not_taken(tmp_path: Path) -> None:
    def model() -> Model:
        made = two_tables()
        again = tf.identity(made.outputs["first"], "graph_opt_tables/values")
        return made._replace(outputs={**made.outputs, "again": again})

    exported = export(model, tmp_path)
    with Loaded(exported) as loaded:
        assert_predicts(loaded, exported, 0)


def test_a_signature_of_the_name_for_updates_is_refused(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = two_tables()
        session.run(tf.global_variables_initializer())
        signature = tf.saved_model.predict_signature_def(made.inputs, made.outputs)
        builder = tf.saved_model.Builder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(session, ["serve"], {"update_tables": signature})
        builder.save()
    graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="signature 'update_tables'"):
        graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "mapped"), map_tables=True)


def test_tables_need_lookups(tmp_path: Path) -> None:
    def model() -> Model:
        made = two_tables()
        rows = [
            tf.raw_ops.ResourceGatherNd(resource=one.handle, indices=[[1]], dtype=tf.float32)
            for one in tf.global_variables()
        ]
        return made._replace(outputs={**made.outputs, "rows": tf.concat(rows, 0)})

    with pytest.raises(tf.errors.FailedPreconditionError, match="no table can be mapped"):
        export(model, tmp_path)
    assert not (tmp_path / "served").exists()


def test_tensorflow_2_loads_and_updates_an_export(tmp_path: Path) -> None:
    exported = export(two_tables, tmp_path, lambda session: None)
    program = """
import numpy as np
import tensorflow as tf
tf.load_op_library({library!r})
model = tf.saved_model.load({folder!r}, tags={tags!r})
found = model.signatures["serving_default"](ids=tf.constant({ids!r}, tf.int64))
np.savez("found.npz", **{{name: value.numpy() for name, value in found.items()}})
print(model.signatures["update_tables"](path=tf.constant({folder!r}))["version"].numpy())
"""
    text = program.format(
        library=exported.library,
        folder=str(exported.folder),
        tags=list(exported.tags),
        ids=exported.request["ids"].tolist(),
    )
    ended = run_forked(text, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "2\n"
    with np.load(str(tmp_path / "found.npz")) as found:
        for name, values in exported.predictions[0].items():
            np.testing.assert_array_equal(found[name], values)


@pytest.mark.slow
def test_processes_share_the_memory_of_tables(tmp_path: Path) -> None:
    exported = export(functools.partial(two_tables, rows=1 << 18, width=16), tmp_path)
    size = 2 * 4 * 16 << 18
    part = str(exported.folder / "assets" / "graph_opt_tables")

    def warmed(server: Server) -> Memory:
        """Once its tables have been read ahead."""
        found = server.call("serving_default", exported.request)
        np.testing.assert_array_equal(found["second"], exported.predictions[0]["second"])
        while server.call("mapped", part).resident < size:
            assert server.process.is_alive()
        return server.call("mapped", part)

    with Server(exported) as alone:
        of_one = warmed(alone)
        with Server(exported) as other:
            warmed(other)
            of_two = [server.call("mapped", part) for server in (alone, other)]
    assert of_one.share >= size
    assert sum(each.share for each in of_two) <= 1.1 * of_one.share
    assert all(each.private == 0 for each in (of_one, *of_two))


def _cut(data: bytes) -> bytes:
    return data[:-4]


def _empty(data: bytes) -> bytes:
    return b""


def _flipped(data: bytes) -> bytes:
    return data[:30] + bytes([data[30] ^ 1]) + data[31:]


def _text(data: bytes) -> bytes:
    return b"x" * len(data)


def _resealed(at: int, number: int) -> Callable[[bytes], bytes]:
    """Another number in the first page, with the right checksum."""

    def change(data: bytes) -> bytes:
        page = data[:at] + struct.pack("<I", number) + data[at + 4 : 4092]
        return page + struct.pack("<I", google_crc32c.value(page)) + data[4096:]

    return change


@pytest.mark.parametrize(
    "change, error, message",
    [
        (_cut, tf.errors.DataLossError, r"table 'first' needs 1024 bytes, and the file has 1020"),
        (_empty, tf.errors.DataLossError, r"has 0 bytes, and so no table"),
        (_flipped, tf.errors.DataLossError, r"its first page is damaged"),
        (_text, tf.errors.DataLossError, r"is no table file"),
        (None, tf.errors.NotFoundError, r"cannot be opened: No such file"),
        (_resealed(8, 2), tf.errors.InvalidArgumentError, r"has version 2 of the format"),
        (_resealed(16, 19), tf.errors.InvalidArgumentError, r"'first' has shape \[64,4\] and "),
        (_resealed(24, 32), tf.errors.InvalidArgumentError, r"\[32,4\].*needs \[64,4\] and float"),
        (_resealed(104, 9), tf.errors.DataLossError, r"'first' has 1024 bytes for 9 rows"),
    ],
)  # fmt: skip
def test_damaged_files_are_told_when_they_are_loaded(
    change: Any, error: Any, message: str, tmp_path: Path
) -> None:
    exported = export(two_tables, tmp_path)
    path = export_list(str(exported.folder)).paths[0]
    data = Path(path).read_bytes()
    os.remove(path)
    if change is not None:
        Path(path).write_bytes(change(data))
    with pytest.raises(error, match=os.path.basename(path) + ".*" + message):
        Loaded(exported)
    Path(path).write_bytes(data)
    with Loaded(exported) as loaded:
        assert_predicts(loaded, exported, 0)


@pytest.mark.parametrize(
    "text, error, message",
    [
        (None, tf.errors.NotFoundError, "there is no such file"),
        ("", tf.errors.DataLossError, "is no list of table files"),
        ("graph_opt tables 1 x\n", tf.errors.NotFoundError, "lists no file of table 'first'"),
    ],
)
def test_a_damaged_list_is_told(text: Any, error: Any, message: str, tmp_path: Path) -> None:
    exported = export(two_tables, tmp_path)
    path = exported.folder / "assets" / ASSET
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(error, match=message):
        Loaded(exported)


def test_a_graph_whose_init_op_has_not_run_says_so(tmp_path: Path) -> None:
    exported = export(two_tables, tmp_path)
    with Loaded(exported) as loaded, tf.Session(graph=loaded.session.graph) as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="have not been opened"):
            session.run("found:0", {"ids:0": [1]})
