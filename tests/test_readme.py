"""The Python code that the README shows, run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, List

import pytest

import graph_opt
from graph_opt.compat import tf

README = Path(__file__).resolve().parents[1] / "README.md"
BATCHES = 7


def small_model() -> Any:
    """The train op of a model with one lookup, over a dataset of `BATCHES` batches."""
    batches = tf.data.Dataset.range(BATCHES * 4).batch(4)
    ids = tf.data.make_one_shot_iterator(batches).get_next()
    table = tf.get_variable("table", [BATCHES * 4, 8])
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids)))
    step = tf.train.get_or_create_global_step()
    return tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)


def test_the_script_in_the_readme_trains_with_prefetched_lookups(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    threads_left_behind: Callable[[], List[str]],
    capsys: pytest.CaptureFixture,
) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(script, str(README), "exec"), {"train_op": small_model()})
    report = graph_opt.report()
    assert report is not None
    assert [lookup.api for lookup in report.lookups] == ["tf.nn.embedding_lookup"]
    assert [lookup.outcome for lookup in report.lookups] == ["moved"]
    assert str(report).strip() in capsys.readouterr().out
    checkpoint = tf.train.latest_checkpoint(str(tmp_path / "model"))
    assert tf.train.load_variable(checkpoint, "global_step") == BATCHES
    assert threads_left_behind() == []
