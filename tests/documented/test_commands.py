"""Commands on the pages: all are understood, and those of the first page print what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from graph_opt.cli.arguments import parser
from tests.documented.page import DOCS, REPOSITORY

PROMPT = "graph-opt "


def commands_of(page: Path) -> List[List[str]]:
    """The arguments of each command in unmarked blocks of code; comments left out."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    unmarked = [text.replace("\\\n", " ") for language, text in blocks if not language]
    lines = [line for text in unmarked for line in text.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith(PROMPT)]


def commands_in_tables(page: Path) -> List[List[str]]:
    """The arguments of each command that is a cell of a table, or is its first part."""
    found = re.findall(r"\| `graph-opt (\w+ [^`|]*)`(?: \||;)", page.read_text("utf-8"))
    return [shlex.split(arguments) for arguments in found]


def test_all_commands_are_understood() -> None:
    pages = [REPOSITORY / "README.md", *sorted(DOCS.glob("*.md"))]
    commands = [command for page in pages for command in commands_of(page)]
    assert len(commands) > 15
    in_tables = [command for page in pages for command in commands_in_tables(page)]
    assert len(in_tables) > 15
    commands += in_tables
    for command in commands:
        options = parser().parse_args(command)
        named = getattr(options, "config", None)
        assert named is None or (REPOSITORY / named).is_file()


@pytest.mark.slow
def test_the_first_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    page = DOCS / "get-started.md"
    text = page.read_text("utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "train.py").write_text(script)
    printed = [_output([sys.executable, "train.py"], tmp_path)]
    for command in commands_of(page):
        printed.append(_output([sys.executable, "-m", "graph_opt.cli", *command], tmp_path))
    printed.append((tmp_path / "report.txt").read_text())
    shown = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    assert len(shown) == 3
    for line in "".join(shown).splitlines():
        assert line in "\n".join(printed)


def _output(command: List[str], folder: Path) -> str:
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY), TF_CPP_MIN_LOG_LEVEL="2")
    ended = subprocess.run(
        command,
        cwd=str(folder),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout
