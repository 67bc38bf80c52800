"""Recorded steps as files in Chrome's trace format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graph_opt.reporting.step_records import StepRecord, Wait, records_of, trace_events

RECORDS = [
    StepRecord(
        "main", "MainThread", 0, 10.0, 10.5, (Wait("TensorBufferTake", 10.125, 10.25),), True
    ),
    StepRecord("stage", "thread/0", 7, 9.0, 10.0),
    StepRecord("stage", "thread/0", 8, 10.0, 11.0, (), True),
]


def test_records_are_read_back_as_written() -> None:
    trace = json.loads(json.dumps(trace_events(RECORDS)))
    assert records_of(trace) == RECORDS
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"]
    assert names == ["main (MainThread)", "stage (thread/0)"]


def test_events_of_other_programs_are_left_out() -> None:
    trace = trace_events(RECORDS)
    trace["traceEvents"] += [{"ph": "X", "cat": "Op", "ts": 1, "dur": 2}, 7, {"cat": "wait"}]
    assert records_of(trace) == RECORDS


@pytest.mark.parametrize(
    "trace, message",
    [
        ([], "no list 'traceEvents'"),
        ({"traceEvents": 3}, "no list 'traceEvents'"),
        ({"traceEvents": [{"cat": "step", "tid": 1}]}, "'args'"),
        ({"traceEvents": [{"cat": "step", "tid": [], "args": {}}]}, "unhashable"),
    ],
)
def test_what_is_no_such_file_is_an_error(trace: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        records_of(trace)
