"""How fast tasks train: told through a pipe, and shown."""

from __future__ import annotations

import functools
import io
import os
import subprocess
import sys
import time
from typing import List

import pytest

from graph_opt.launch.progress_lines import ProgressLines
from graph_opt.launch.steps_pipe import StepsPipe


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_steps_are_told_and_go_on_after_a_restart() -> None:
    pipe = StepsPipe()
    script = (
        "import threading, sys\n"
        "from graph_opt.launch.steps_pipe import tell_steps\n"
        "told = threading.Event()\n"
        "counts = iter(map(int, sys.argv[1:]))\n"
        "def count():\n"
        "    try: return next(counts)\n"
        "    except StopIteration: told.set(); raise OSError\n"
        "tell_steps(count)\n"
        "told.wait()\n"
    )
    for counts in (["3", "5"], ["2"]):
        subprocess.run(
            [sys.executable, "-c", script, *counts],
            env=dict(os.environ, **pipe.environment),
            pass_fds=[pipe.inherited],
            check=True,
            timeout=60,
        )
    deadline = time.monotonic() + 30
    while pipe.count() != 7 and time.monotonic() < deadline:
        os.sched_yield()
    assert pipe.count() == 7


def test_a_terminal_shows_them_below_all_other_lines() -> None:
    stream = Terminal()
    counts = {"chief": 0, "worker 0": 0}
    lines = ProgressLines(
        {name: functools.partial(counts.__getitem__, name) for name in counts}, stream
    )
    lines.refresh()
    assert stream.getvalue() == "chief 0.0 steps/s (0)\nworker 0 0.0 steps/s (0)\n"
    stream.truncate(0)
    stream.seek(0)
    lines.bottom.above(lambda: stream.write("loss 0.5\n"))
    erased = "\x1b[1A\x1b[2K" * 2
    shown = "chief 0.0 steps/s (0)\nworker 0 0.0 steps/s (0)\n"
    assert stream.getvalue() == erased + "loss 0.5\n" + shown


def test_a_log_gets_one_line_for_all_once_there_are_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments: List[float] = [0.0, 0.0, 1.0, 1.0, 3.0, 3.0]
    monkeypatch.setattr(time, "monotonic", lambda: moments.pop(0))
    stream = io.StringIO()
    counts = {"chief": 0, "worker 0": 0}
    lines = ProgressLines(
        {name: functools.partial(counts.__getitem__, name) for name in counts}, stream
    )
    lines.refresh()
    assert stream.getvalue() == ""
    counts.update({"chief": 3000, "worker 0": 1})
    lines.refresh()
    assert stream.getvalue() == (
        "graph-opt cluster: chief 1500.0 steps/s (3,000), worker 0 0.5 steps/s (1)\n"
    )
