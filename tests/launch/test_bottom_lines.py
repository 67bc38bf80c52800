"""Bars and other lines of several processes stay whole at the bottom of a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from graph_opt.launch.bottom_lines import BottomLines
from tests.cli.terminals import lines_of, on_terminal

SCRIPT = """
import json, os, signal, sys
if json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "ps":
    signal.pause()
for done in range(3):
    sys.stderr.write("\\r{}/3 {}".format(done, "#" * 30))
    sys.stderr.flush()
    print("step", done, flush=True)
sys.stderr.write("\\r3/3 done\\n")
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_are_printed_above_bars_and_bars_above_other_lines() -> None:
    stream = Terminal()
    bottom = BottomLines(stream)
    bottom.show_lines(["chief 2.0 steps/s"])
    bottom.show_bar("worker 0", "[worker 0] 1/2")
    bottom.show_bar("chief", "[chief] 1/2")
    bottom.above(lambda: stream.write("loss 0.5\n"))
    bottom.show_bar("worker 0", "[worker 0] 2/2")
    shown = ["[worker 0] 2/2", "[chief] 1/2", "chief 2.0 steps/s"]
    assert lines_of(stream.getvalue()) == ["loss 0.5", *shown]


def test_the_last_line_of_a_bar_takes_its_place() -> None:
    stream = Terminal()
    bottom = BottomLines(stream)
    bottom.show_bar("chief", "[chief] 1/2")
    bottom.show_bar("worker 0", "[worker 0] 1/2")
    bottom.above(lambda: stream.write("[chief] 2/2\n"), instead_of="chief")
    bottom.show_bar("worker 0", "")
    assert lines_of(stream.getvalue()) == ["[chief] 2/2"]


def test_no_bar_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    BottomLines(stream).show_bar("chief", "#" * 30)
    assert stream.getvalue() == "#" * 19 + "\n"


def test_elsewhere_lines_are_as_they_were() -> None:
    stream = io.StringIO()
    bottom = BottomLines(stream)
    bottom.show_lines(["chief 2.0 steps/s"])
    bottom.above(lambda: stream.write("loss 0.5\n"), instead_of="chief")
    assert stream.getvalue() == "loss 0.5\n"


def test_bars_of_a_cluster_do_not_tear_what_its_tasks_print(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    arguments = ["cluster", "--ps", "1", "--workers", "2", "--logs", "logs", "train.py"]
    shown = on_terminal(arguments, tmp_path, COLUMNS="80")
    assert shown.code == 0
    lines = [line for line in lines_of(shown.text) if "graph-opt" not in line]
    tasks = ("chief", "worker 0")
    printed = ["[{}] step {}".format(task, done) for task in tasks for done in range(3)]
    assert sorted(lines) == sorted(printed + ["[{}] 3/3 done".format(task) for task in tasks])
