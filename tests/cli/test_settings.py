"""What `--set` asks for where no config file does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

import pytest

from graph_opt.cli.main import main
from graph_opt.compat import tf
from tests.json_documents import validated


def loss_of_a_batch() -> Any:
    ids = tf.data.make_one_shot_iterator(tf.data.Dataset.range(64).batch(8)).get_next()
    return tf.reduce_sum(tf.nn.embedding_lookup(tf.get_variable("table", [64, 4]), ids))


@pytest.mark.parametrize(
    ("settings", "fused", "ahead"),
    [
        ((), 0, 1),
        (("capacity=4",), 0, 1),
        (("do_group_embedding=true",), 1, 0),
        (("do_group_embedding=false",), 0, 1),
        (("do_group_embedding=true", "do_async_embedding=true"), 1, 1),
    ],
)
def test_settings_that_turn_something_on_turn_on_what_they_name(
    tmp_path: Path,
    settings: Sequence[str],
    fused: int,
    ahead: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tf.train.GradientDescentOptimizer(0.1).minimize(loss_of_a_batch())
    graph_file = tmp_path / "model.meta"
    tf.train.export_meta_graph(str(graph_file))
    options = [text for setting in settings for text in ("--set", setting)]
    assert main(["inspect", str(graph_file), "--json", *options]) == 0
    found = validated(capsys.readouterr().out)
    assert (bool(found["fused_lookups"]), bool(found["stages"])) == (bool(fused), bool(ahead))
    assert not any("do_async_embedding is not" in text for text in found["warnings"])
