"""Processes without graph_opt serve what was exported: one of Python, and one of C."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Dict, List

import pytest
import tensorflow as stock_tensorflow

import graph_opt
from graph_opt.compat import tf
from tests.export.served_model import load_without_graph_opt
from tests.serving.models_to_serve import Model, of_placeholders, save

HERE = Path(__file__).resolve().parent
TENSORFLOW = Path(stock_tensorflow.__file__).resolve().parent
C_LIBRARY = TENSORFLOW / "libtensorflow_cc.so.2"
ROWS = [[3, 60], [0, 0], [63, 1]]


def one_feature() -> Model:
    """A single feature, whose result is that of a lookup."""
    model = of_placeholders()
    inputs = {"f0": model.inputs["f0"]}
    sums = tf.reduce_sum(model.outputs["first"], 1, name="sums")
    return Model(inputs, {"sums": sums, "first": model.outputs["first"]}, {})


@pytest.fixture(params=[False, True], ids=["variables", "mapped"])
def exported(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    save(one_feature, tmp_path / "model")
    model, served = str(tmp_path / "model"), str(tmp_path / "served")
    return graph_opt.export_fused(model, served, map_tables=request.param)


def test_a_python_process_serves_both_graphs(exported: Any, tmp_path: Path) -> None:
    negative, too_large = [[3, -5]], [[3, 64]]
    asked: List[Dict[str, Any]] = []
    for tags in (exported.stock_tags, exported.fused_tags):
        for ids in (ROWS, negative, too_large, ROWS):
            asked.append({"kind": "saved_model", "path": str(tmp_path / "served"), "tags": tags})
            asked[-1].update(feed={"f0": ids}, fetch="first")
    without = dict(asked[4])
    for request in asked[4:]:
        request["library"] = exported.library
    first, *answers = load_without_graph_opt([without, *asked], tmp_path)
    # TensorFlow's error names an op that it lacks.
    assert "GroupEmbeddingLookup" in first or "ServedTables" in first
    stock, fused = answers[:4], answers[4:]
    assert stock[:2] == fused[:2] and stock[3] == fused[3] == stock[0]
    assert stock[2].startswith("InvalidArgumentError")
    assert fused[2].startswith("InvalidArgumentError") and "tables/f0" in fused[2]


@pytest.mark.skipif(
    not C_LIBRARY.exists() or shutil.which("cc") is None, reason="no C compiler, or no C API"
)
def test_a_c_program_serves_both_graphs(exported: Any, tmp_path: Path) -> None:
    program = tmp_path / "serve"
    include = sysconfig.get_path("include")
    command = ["cc", "-std=c99", "-Wall", "-Werror", "-I", str(TENSORFLOW / "include")]
    command += ["-I", include, str(HERE / "serve.c"), "-o", str(program)]
    libraries = [str(C_LIBRARY), str(TENSORFLOW / "libtensorflow_framework.so.2")]
    subprocess.run([*command, *libraries, "-Wl,-rpath," + str(TENSORFLOW)], check=True)
    requests = "".join("{} {}\n".format(*row) for row in [*ROWS, [3, 64], *ROWS])

    def served(library: str, tags: Any, preloaded: str = "") -> List[str]:
        ran = subprocess.run(
            [str(program), str(tmp_path / "served"), library, ",".join(tags), "f0:0", "sums:0"],
            input=requests,
            capture_output=True,
            text=True,
            env=dict(
                os.environ,
                TF_CPP_MIN_LOG_LEVEL="3",
                LD_PRELOAD=preloaded,
                LD_LIBRARY_PATH=str(TENSORFLOW),
            ),
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.split("\n")

    stock = served("-", exported.stock_tags)
    fused = served(exported.library, exported.fused_tags)
    assert fused == stock == served("-", exported.fused_tags, exported.library)
    assert stock[3] == "error 3" and stock[:3] == stock[4:7]  # INVALID_ARGUMENT; it goes on.


def two_features_of_a_table() -> Model:
    """A table whose name does not tell which feature has a bad id."""
    ids = {name: tf.placeholder(tf.int64, [None], name) for name in ("item", "history")}
    table = tf.get_variable("items", [8, 4])
    rows = [tf.nn.embedding_lookup(table, each) for each in ids.values()]
    return Model(ids, {"sums": tf.reduce_sum(tf.concat(rows, 1), 1)}, {})


def test_an_error_tells_from_which_feature_an_id_comes(tmp_path: Path) -> None:
    save(two_features_of_a_table, tmp_path / "model")
    exported = graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"))
    asked: Dict[str, Any] = {"kind": "saved_model", "path": str(tmp_path / "served")}
    asked.update(tags=exported.fused_tags, library=exported.library, fetch="sums")
    bad = [{"item": [1, 8], "history": [0, 0]}, {"item": [1, 7], "history": [0, -1]}]
    answers = load_without_graph_opt([{**asked, "feed": feed} for feed in bad], tmp_path)
    for answer, text in zip(answers, ("id 8 in row 1 of ", "id -1 in row 1 of ")):
        assert answer.startswith("InvalidArgumentError") and text in answer
    assert "rows of table 'items'; the ids come from 'item'" in answers[0]
    assert "rows of table 'items'; the ids come from 'history'" in answers[1]


def test_the_library_has_no_op_that_trains(exported: Any) -> None:
    data = Path(exported.library).read_bytes()
    assert b"ResourceGroupEmbeddingLookup" in data and b"OpenServedTables" in data
    for op in (
        b"GroupEmbeddingApply",
        b"GroupEmbeddingGrad",
        b"TensorBufferPut",
        b"DynamicTableApply",
    ):
        assert op not in data
