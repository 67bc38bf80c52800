"""Commands take frozen graphs: `graph-opt inspect`, `rewrite`, `plan` and `export`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.serving.compared_predictions import compare_predictions
from tests.json_documents import validated
from tests.serving.frozen_models import FROZEN, FrozenModel, dlrm, frozen, save_frozen
from tests.serving.models_to_serve import ROWS
from tests.serving.test_served_graphs import cells, rows_of, told

FUSING = (
    "graph_options { optimizer_options { do_group_embedding: true "
    "group_embedding_options { fuse_inference: true } } }"
)


def written(model: FrozenModel, folder: Path) -> str:
    path = folder / "frozen.pb"
    path.write_bytes(model.graph_def.SerializeToString())
    (folder / "config.pbtxt").write_text(FUSING)
    return str(path)


def test_inspect_finds_the_lookups_of_a_frozen_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = written(frozen(dlrm), tmp_path)
    alone = validated(told(["inspect", path, "--json"], capsys))
    assert len(alone["lookups"]) == 5 and not alone["warnings"]
    config = ["--config", str(tmp_path / "config.pbtxt")]
    fused = validated(told(["inspect", path, *config, "--json"], capsys))
    assert {one["tables"][0] for one in fused["fused_lookups"]} == {
        "tables/id{}".format(number) for number in range(5)
    }


def test_rewrite_writes_a_graph_that_predicts_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    model = frozen(dlrm)
    path, out = written(model, tmp_path), str(tmp_path / "fused.pb")
    config = ["--config", str(tmp_path / "config.pbtxt")]
    told(["rewrite", path, "-o", out, *config], capsys)
    fused = model._replace(graph_def=tf.GraphDef.FromString(Path(out).read_bytes()))
    assert any(node.op == "GroupEmbeddingLookup" for node in fused.graph_def.node)
    with model.opened() as stock, fused.opened() as ours:
        expected = stock.run(model.outputs["scores"], model.feeds())
        np.testing.assert_array_equal(ours.run(model.outputs["scores"], model.feeds()), expected)
    assert cells(told(["inspect", out], capsys), "tables/id0")[-2:] == ["the graph", "1"]


def test_plan_counts_rows_of_constants(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = written(frozen(dlrm), tmp_path)
    config = ["--config", str(tmp_path / "config.pbtxt")]
    text = told(["plan", path, *config, "--batch", "8", "--fetch", "scores"], capsys)
    rows, sizes = rows_of(text)
    assert rows[:3] == ["rows of tables read", "40", "40"]
    assert sizes[:3] == ["bytes of these rows", "1.2 KiB", "1.2 KiB"]


@pytest.mark.parametrize("name", ["dlrm", "wide"])
def test_a_frozen_saved_model_is_exported(name: str, tmp_path: Path) -> None:
    model = frozen(FROZEN[name])
    save_frozen(model, tmp_path / "model")
    exported = graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"))
    assert len(exported.report.fused) >= 5
    requests = [model.request, {key: rows[: ROWS // 3] for key, rows in model.request.items()}]
    compared = compare_predictions(str(tmp_path / "served"), requests)
    assert {each.output: each.difference for each in compared} == dict.fromkeys(model.outputs, 0.0)


def test_the_tables_of_a_frozen_saved_model_are_not_mapped(tmp_path: Path) -> None:
    """They stay constants; a frozen graph's become variables, which are."""
    model = frozen(dlrm)
    save_frozen(model, tmp_path / "model")
    with pytest.raises(tf.errors.FailedPreconditionError, match="constants of a frozen model: tab"):
        graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "served"), map_tables=True)
    path = written(model, tmp_path)
    exported = graph_opt.export_fused(
        path,
        str(tmp_path / "served"),
        inputs={name: name + ":0" for name in model.request},
        outputs=model.outputs,
        map_tables=True,
    )
    assert exported.mapped[0].startswith("5 tables")
