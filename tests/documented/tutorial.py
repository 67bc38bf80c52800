"""Follows a page in the way of its reader: saves its scripts, and runs its commands in order.

    ```python    a script, saved under the last name in backticks in front of it
    ```          commands; those that install or compile something are left to other tests
    ```text      lines that the commands above it print; `...` stands for what is not shown

Whole numbers are compared to the digit. Speeds are the machine's own. Other numbers with a decimal
point, such as losses, may differ by `CLOSE`: with lookups ahead, they vary from run to run.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from tests.documented.page import DOCS, REPOSITORY

CLOSE = 0.15
_PROGRAMS = {
    "cat": ["cat"],
    "graph-opt": [sys.executable, "-m", "graph_opt.cli"],
    "python": [sys.executable],
}
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"`([\w/]+\.\w+)`")
# A speed, another number with a decimal point, what is left out, any other character.
_TOKENS = re.compile(r"(\d[\d.]*(?= steps/s))|(\d+\.\d+)|(\.\.\.)|(.)")


def follow(page: Path, folder: Path) -> None:
    """Does what a page says, in a folder with the examples and configs of a checkout.

    Raises:
      AssertionError: A command failed, or did not print a line that the page shows.
    """
    for name in ("examples", "configs"):
        shutil.copytree(str(REPOSITORY / name), str(folder / name))
    text = page.read_text("utf-8")
    printed = ""
    for block in _BLOCK.finditer(text):
        language, content = block.groups()
        if language == "python":
            name = _FILE.findall(text[: block.start()])[-1]
            (folder / name).write_text(content, "utf-8")
        elif language == "text":
            missing = lines_not_in(content, printed)
            assert missing == [], "{} shows {}\nbut printed was\n{}".format(page, missing, printed)
        else:
            printed = "".join(_output(command, folder) for command in _commands(content))


def lines_not_in(shown: str, printed: str) -> List[str]:
    """The lines that a page shows and that nothing printed."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    expected = [" ".join(line.split()) for line in shown.splitlines()]
    return [one for one in expected if not any(_is_alike(one, line) for line in lines)]


def _is_alike(shown: str, printed: str) -> bool:
    tokens = _TOKENS.findall(shown)
    pattern = "".join(
        r"[\d.]+" if speed else r"(\d+\.\d+)" if number else ".*" if rest else re.escape(other)
        for speed, number, rest, other in tokens
    )
    found = re.fullmatch(pattern, printed)
    numbers = [float(number) for _, number, _, _ in tokens if number]
    return found is not None and numbers == pytest.approx([*map(float, found.groups())], rel=CLOSE)


def _commands(block: str) -> List[List[str]]:
    """Those commands of a block that are run, with their wildcards as they stand."""
    lines = block.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    return [command for command in commands if command and command[0] in _PROGRAMS]


def _output(command: List[str], folder: Path) -> str:
    program, *arguments = command
    found = [_matches(argument, folder) for argument in arguments]
    ended = subprocess.run(
        [*_PROGRAMS[program], *(path for paths in found for path in paths)],
        cwd=str(folder),
        env=dict(os.environ, PYTHONPATH=str(REPOSITORY), TF_CPP_MIN_LOG_LEVEL="2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ended.returncode == 0, "{}\n{}".format(" ".join(command), ended.stdout)
    return ended.stdout


def _matches(argument: str, folder: Path) -> List[str]:
    """The paths that a shell would give to a command in place of a wildcard."""
    paths = sorted(glob.glob(str(folder / argument))) if "*" in argument else []
    return [os.path.relpath(path, str(folder)) for path in paths] or [argument]


TUTORIALS = ["get-started", *sorted(page.stem for page in DOCS.glob("tutorial-*.md"))]
