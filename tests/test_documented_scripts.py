"""The Python code in the README and on the page of group lookups runs exactly as shown."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any, Callable, List

import pytest

import graph_opt
from graph_opt.compat import tf
from tests.processes import kill, start_process
from tests.session.parameter_servers import free_addresses

REPOSITORY = Path(__file__).resolve().parents[1]
README = REPOSITORY / "README.md"
GROUP_LOOKUPS = REPOSITORY / "docs" / "group-lookups.md"
MOST_LINES = 25
ROWS, BATCH = 50000, 256  # as the README has them


def scripts_of(page: Path) -> List[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)


def script_with(word: str) -> Any:
    """The only script on the page of group lookups that contains this word, compiled."""
    (script,) = [script for script in scripts_of(GROUP_LOOKUPS) if word in script]
    return compile(script, str(GROUP_LOOKUPS), "exec")


def test_the_script_in_the_readme_trains_as_pasted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    threads_left_behind: Callable[[], List[str]],
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    (script,) = scripts_of(README)
    assert len(script.splitlines()) <= MOST_LINES
    (tmp_path / "train.py").write_text(script)
    runpy.run_path("train.py", run_name="__main__")
    report = graph_opt.report()
    assert report is not None
    assert [lookup.outcome for lookup in report.lookups] == ["moved"]
    assert [lookup.api for lookup in report.fused_lookups] == ["tf.nn.embedding_lookup"] * 2
    assert [lookup.update for lookup in report.fused_lookups] == ["fused"] * 2
    printed = capsys.readouterr()
    assert str(report).strip() in printed.out
    (said,) = re.findall(r"^graph_opt: .*$", README.read_text("utf-8"), flags=re.MULTILINE)
    assert re.sub(r"session \d+", "session 1", printed.err).count(said) == 1
    checkpoint = tf.train.latest_checkpoint(str(tmp_path / "model"))
    assert tf.train.load_variable(checkpoint, "global_step") == -(-ROWS // BATCH)
    assert threads_left_behind() == []


def test_the_server_on_the_page_has_the_ops() -> None:
    (address,) = free_addresses(1)
    server = start_process(serve, address)
    try:
        with tf.device("/job:ps/task:0"):
            table = tf.get_variable("table", [3, 2], initializer=tf.ones_initializer())
            (pooled,) = graph_opt.group_embedding_lookup_sparse(table, tf.constant([2]), "sum")
        assert pooled.op.type == "GroupEmbeddingLookup"
        with tf.Session("grpc://" + address) as session:
            session.run(tf.global_variables_initializer())
            assert session.run(pooled).tolist() == [[1.0, 1.0]]
    finally:
        kill(server)


def serve(address: str) -> None:
    """Runs the server of the page; never returns."""
    names = {"graph_opt": graph_opt, "tf": tf, "cluster": {"ps": [address]}}
    exec(script_with("tf.train.Server"), names)


def test_the_group_lookups_on_the_page_are_one_op_each() -> None:
    names = {
        "graph_opt": graph_opt,
        "tf": tf,
        "user_table": tf.get_variable("user", [5, 2], initializer=tf.ones_initializer()),
        "item_table": tf.get_variable("item", [7, 4], initializer=tf.ones_initializer()),
        "user_ids": tf.constant([1, 4]),
        "item_ids": tf.constant([6, 0]),
        "categories": [
            tf.feature_column.categorical_column_with_identity(name, 9) for name in ("a", "b")
        ],
    }
    exec(script_with("group_embedding_column_scope"), names)
    features = {"a": tf.constant([[1]]), "b": tf.constant([[8]])}
    layer = tf.feature_column.input_layer(features, names["columns"])
    results = [tensor.op.name for tensor in (names["user"], names["item"], layer)]
    run = tf.graph_util.extract_sub_graph(graph_opt.running_graph_def(), results)
    assert [node.op for node in run.node].count("GroupEmbeddingLookup") == 2
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(names["user"]).tolist() == [[1.0] * 2] * 2
        assert session.run(names["item"]).tolist() == [[1.0] * 4] * 2
        assert session.run(layer).shape == (1, 32)
