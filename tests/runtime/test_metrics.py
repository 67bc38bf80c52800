"""Buffer metrics as a dict and as TensorBoard scalars."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any, Dict, List

import pytest

from graph_opt.compat import tf
from graph_opt.ops.tensor_buffer import METRIC_NAMES
from graph_opt.runtime.metrics import buffer_metrics
from graph_opt.runtime.staged import staged
from graph_opt.runtime.summary_hook import PrefetchSummaryHook
from graph_opt.session.prefetch_hook import make_prefetch_hook
from tests.runtime.sources import drain, numbers, prefetching, wait_until


def test_metrics_name_every_stage_upstream_first() -> None:
    taken = staged(staged(numbers(9), name="io"), capacity=2, name="lookup")
    with tf.Session() as session:
        assert set(buffer_metrics(session)["io"]) == set(METRIC_NAMES)
        with prefetching(session):
            drain(session, taken)
            metrics = buffer_metrics(session)
    assert list(metrics) == ["io", "lookup"]
    assert set(metrics["io"]) == set(METRIC_NAMES) | {"steps", "ignored", "threads"}
    assert metrics["lookup"]["capacity"] == 2
    assert metrics["lookup"]["take_count"] == metrics["io"]["put_count"] == 9
    assert metrics["lookup"]["taken_bytes"] == 9 * 8


def test_metrics_say_who_waited() -> None:
    taken = staged(numbers(), name="io")
    with tf.Session() as session, prefetching(session):
        wait_until(lambda: buffer_metrics(session)["io"]["pending_puts"] == 1, "a full buffer")
        session.run(taken)
        assert buffer_metrics(session)["io"]["put_wait_micros"] > 0


def test_metrics_of_a_monitored_session_and_of_no_stage() -> None:
    with tf.Session() as session:
        assert buffer_metrics(session) == {}
    staged(numbers(), name="io")
    with tf.train.MonitoredTrainingSession(hooks=[make_prefetch_hook()]) as session:
        assert list(buffer_metrics(session)) == ["io"]
    with pytest.raises(ValueError, match="closed"):
        buffer_metrics(session)


def scalars_in(folder: Path) -> Dict[str, List[Any]]:
    """(step, value) of each tag in the folder's event files."""
    tf.summary.FileWriterCache.clear()
    found: Dict[str, List[Any]] = {}
    for path in glob.glob(str(folder / "events*")):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def test_scalars_are_written_every_n_steps_at_the_global_step(tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    train = tf.group(tf.assign_add(step, 10), staged(tf.zeros([4]), capacity=2, name="io"))
    hooks = [make_prefetch_hook(), PrefetchSummaryHook(str(tmp_path), every_n_steps=3)]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        for _ in range(7):
            session.run(train)
    scalars = scalars_in(tmp_path)
    assert sorted(scalars) == [
        "prefetch/io/" + name
        for name in ("bytes", "elements", "full_ms", "occupancy", "starved_ms")
    ]
    assert scalars["prefetch/io/bytes"] == [(30, 16.0), (60, 16.0)]
    for elements, occupancy in zip(
        scalars["prefetch/io/elements"], scalars["prefetch/io/occupancy"]
    ):
        assert occupancy[1] == elements[1] / 2


def test_the_users_own_writer_and_no_global_step(tmp_path: Path) -> None:
    taken = staged(numbers(), name="io")
    writer = tf.summary.FileWriterCache.get(str(tmp_path))
    hook = PrefetchSummaryHook(summary_writer=writer, every_n_steps=2)
    with tf.train.MonitoredSession(hooks=[make_prefetch_hook(), hook]) as session:
        for _ in range(5):
            session.run(taken)
    assert [step for step, _ in scalars_in(tmp_path)["prefetch/io/bytes"]] == [2, 4]


@pytest.mark.parametrize("options", [{}, {"output_dir": "x", "every_n_steps": 0}])
def test_a_summary_hook_without_a_folder_or_an_interval_is_refused(options: Dict[str, Any]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="PrefetchSummaryHook"):
        PrefetchSummaryHook(**options)
