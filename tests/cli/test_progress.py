"""Progress on terminals: nothing within two seconds, then a bar with the time left."""

from __future__ import annotations

import contextlib
import io
import pty
import sys
from pathlib import Path

import pytest

from graph_opt.cli import progress as progress_module
from graph_opt.cli.progress import Progress
from graph_opt.compat import tf
from graph_opt.inspect.graph_files import write_graph
from tests.cli.terminals import on_terminal

PARTS = {"reading": 1.0, "rewriting": 3.0}


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_what_is_done_is_the_parts_before_and_a_share_of_this_one() -> None:
    with Progress("graph.pb", PARTS) as progress:
        progress.reached(1, 2)
        assert progress.fraction == 0.125
        progress.begins("rewriting")
        progress.reached(2, 3)
        assert progress.fraction == 0.75


def test_a_part_that_tells_nothing_is_guessed_and_never_done() -> None:
    with Progress("graph.pb", PARTS) as progress:
        progress.begins("rewriting")
        assert 0.25 <= progress.fraction <= 0.25 + 0.75 * 0.95


def test_an_only_part_is_guessed_from_how_long_it_may_take() -> None:
    with Progress("check", {"stock": 1.0}) as progress:
        assert progress.fraction == 0.0
    with Progress("check", {"rewritten": 1.0}, seconds=1e-9) as progress:
        assert progress.fraction == 0.95


def test_a_terminal_shows_the_part_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "_QUIET_SECONDS", 0.0)
    monkeypatch.setattr(progress_module, "_SECONDS_BETWEEN", 0.01)
    stream = Terminal()
    with contextlib.redirect_stderr(stream), Progress("graph.pb", PARTS) as progress:
        progress.reached(1, 2)
        while "12%" not in stream.getvalue():
            pass
    shown = stream.getvalue()
    assert "graph-opt: graph.pb: reading:" in shown and "left" in shown
    assert shown.endswith("\r")  # The line is erased.


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_the_time_left_is_shown_however_narrow_the_terminal_is(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(progress_module, "_QUIET_SECONDS", 0.0)
    stream = Terminal()
    with contextlib.redirect_stderr(stream), Progress("graph.pb", {"looking for lookups": 1.0}):
        while " left" not in stream.getvalue():
            pass
    lines = [line for line in stream.getvalue().split("\r") if line.strip()]
    assert all("lookin" in line and line.endswith(" left") for line in lines)
    assert max(map(len, lines)) <= columns
    assert all(("graph-opt: graph.pb: " in line) == (columns > 60) for line in lines)


def test_a_terminal_that_does_not_tell_its_size_shows_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress_module, "_QUIET_SECONDS", 0.0)
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as reader, open(theirs, "w") as stream:
        with contextlib.redirect_stderr(stream), Progress("graph.pb", PARTS):
            shown = b""
            while b"graph-opt: graph.pb: reading:" not in shown:
                shown += reader.read(1 << 10)


def test_other_streams_get_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "_QUIET_SECONDS", 0.0)
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream), Progress("graph.pb", PARTS) as progress:
        progress.begins("rewriting")
    assert stream.getvalue() == ""
    assert sys.stderr is not stream


def test_a_small_graph_on_a_terminal_shows_no_bar(tmp_path: Path) -> None:
    tf.constant(1.0)
    write_graph(tf.get_default_graph().as_graph_def(), tmp_path / "graph.pb")
    shown = on_terminal(["inspect", "graph.pb"], tmp_path)
    assert shown.code == 0 and "no embedding lookup found" in shown.text
