"""What `--tensorboard` writes is what TensorBoard reads, with regions where it has clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import pytest

from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.inspect.tensorboard import write_for_tensorboard
from tests.report_page.page_models import hostile_lookups, trained_model


def written_graph(run: Path) -> Any:
    (file,) = run.iterdir()
    (data,) = [one.graph_def for one in tf.train.summary_iterator(str(file)) if one.graph_def]
    return tf.GraphDef.FromString(data)


def clusters(graph_def: Any) -> Dict[str, str]:
    return {
        node.name: node.attr["_XlaCluster"].s.decode()
        for node in graph_def.node
        if "_XlaCluster" in node.attr
    }


def test_both_graphs_are_runs_with_regions_as_clusters(tmp_path: Path) -> None:
    trained_model()
    source = tf.get_default_graph().as_graph_def()
    graph = tmp_path / "model.pb"
    graph.write_bytes(source.SerializeToString())
    assert main(["inspect", str(graph), "--tensorboard", str(tmp_path / "logs")]) == 0
    before, after = (written_graph(tmp_path / "logs" / run) for run in ("before", "after"))
    assert [node.name for node in before.node] == [node.name for node in source.node]
    assert clusters(before)["tower/Square"] == "main" and "user_table" not in clusters(before)
    assert clusters(after)["async_embedding/TensorBufferPut"] == "prefetch"
    assert clusters(after)["IteratorGetNext"] == "idle"


def test_hostile_names_of_nodes_and_functions_stay_what_they_are(tmp_path: Path) -> None:
    graph_def = hostile_lookups()
    write_for_tensorboard(graph_def, tmp_path)
    written = written_graph(tmp_path)
    assert written.library == graph_def.library
    for node in written.node:
        node.attr.pop("_XlaCluster", None)
    assert written.node == graph_def.node


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained_model()
    graph = tmp_path / "model.pb"
    graph.write_bytes(tf.get_default_graph().as_graph_def().SerializeToString())
    assert main(["inspect", str(graph), "--tensorboard", str(graph)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("graph-opt: {}/before: cannot be written".format(graph))
