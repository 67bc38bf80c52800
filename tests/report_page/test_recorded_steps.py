"""Timelines that were recorded before, read from traces and from pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_opt.compat import tf
from graph_opt.report_page.page import page_html
from graph_opt.report_page.page_content import PageSource, page_content
from graph_opt.report_page.recorded_steps import read_steps
from graph_opt.reporting.report import Report
from graph_opt.runtime.trace import StepRecord, StepTrace, Wait

STEPS = (
    StepRecord("main", "MainThread", 0, 0.5, 0.75, (Wait("TensorBufferTake", 0.5, 0.625),), True),
    StepRecord("main", "MainThread", 1, 0.75, 1.0, (Wait("TensorBufferPut", 0.75, 0.875),), True),
    StepRecord("main", "MainThread", 2, 1.0, 1.25, (), True),
    StepRecord("stage", "graph_opt/stage/0", 3, 0.0, 0.25),
)


def test_steps_are_read_from_a_trace_and_from_a_page(tmp_path: Path) -> None:
    trace, saved = StepTrace(), tmp_path / "steps.json"
    for step in STEPS:
        trace.append(step)
    trace.save(saved)
    assert set(read_steps(str(saved))) == set(STEPS)
    graph_def = tf.GraphDef()
    graph_def.node.add(name="one", op="NoOp")
    page = tmp_path / "report.html"
    page.write_text(page_html(page_content(PageSource("one", Report(), graph_def, steps=STEPS))))
    assert set(read_steps(str(page))) == set(STEPS)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"{", "is no timeline"),
        (b"[]", "no list 'traceEvents'"),
        (b'{"traceEvents": []}', "has no recorded steps"),
        (b"\xff\xfe", "is no text"),
        (b"[" * 100_000, "is no timeline"),
        (b'<script type="application/json" id="content">[]</script>', "is no timeline"),
        (b'<script type="application/json" id="content">{}</script>', "no recorded steps"),
        (
            b'<script type="application/json" id="content">'
            b'{"timeline":{"lanes":[{"stage":"a","thread":"b","steps":[["x"]]}]}}</script>',
            "is no timeline",
        ),
    ],
)
def test_other_files_are_one_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "steps.json"
    path.write_bytes(content)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message) as caught:
        read_steps(str(path))
    assert caught.value.message.startswith(str(path)) and "\n" not in caught.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.NotFoundError, match=r"none\.json: no such file"):
        read_steps(str(tmp_path / "none.json"))
