"""Colours where the output is a terminal that has some, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest

from graph_opt.cli.check import coloured_verdict
from tests.cli.terminals import on_terminal

ESCAPE = "\x1b["
RED = "\x1b[1;31m"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["inspect", "none.pb"], RED + "graph-opt:\x1b[0m none.pb: no such file"),
        (["inpsect"], RED + "graph-opt:\x1b[0m there is no command 'inpsect'"),
        (["run", "none.py"], RED + "graph-opt run:\x1b[0m cannot open script 'none.py'"),
        (["convert", "--help"], "\x1b[1musage:\x1b[0m graph-opt convert"),
        (["convert", "--help"], "\x1b[36m--weights-only\x1b[0m"),
        ([], "\x1b[36minspect\x1b[0m  "),
    ],
)
def test_a_terminal_shows_colours(arguments: List[str], shown: str, tmp_path: Path) -> None:
    assert shown in on_terminal(arguments, tmp_path).text


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
@pytest.mark.parametrize("arguments", [["inspect", "none.pb"], ["inpsect"], ["--help"]])
def test_users_may_turn_them_off(
    arguments: List[str], variables: Dict[str, str], tmp_path: Path
) -> None:
    shown = on_terminal(arguments, tmp_path, **variables)
    assert "graph-opt" in shown.text and ESCAPE not in shown.text


@pytest.mark.parametrize("arguments", [["inspect", "none.pb"], ["inpsect"], ["--help"]])
def test_files_and_pipes_get_none(arguments: List[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "graph_opt.cli", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True)
    printed = ran.stdout + ran.stderr
    assert "graph-opt" in printed and ESCAPE not in printed


def test_colours_change_nothing_else_of_the_help(tmp_path: Path) -> None:
    plain = on_terminal(["check", "--help"], tmp_path, NO_COLOR="1", COLUMNS="80").text
    coloured = on_terminal(["check", "--help"], tmp_path, COLUMNS="80").text
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[36m"):
        assert code in coloured
        coloured = coloured.replace(code, "")
    assert coloured == plain


@pytest.mark.parametrize(
    ("verdict", "code"),
    [("equal", "32"), ("rounding", "32"), ("different", "1;31"), ("unchecked", "33")],
)
def test_the_verdict_of_a_check_has_the_colour_of_its_kind(verdict: str, code: str) -> None:
    text = "session: a\nverdict: b\nnote: c"
    assert coloured_verdict(text, verdict) == (
        "session: a\n\x1b[{}mverdict: b\x1b[0m\nnote: c".format(code)
    )
