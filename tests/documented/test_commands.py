"""Commands on the pages are understood, and their configs are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import List

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
