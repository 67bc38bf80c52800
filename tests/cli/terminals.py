"""A terminal in which a test runs a command."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from typing import Any, List, NamedTuple, Sequence


class Shown(NamedTuple):
    """What a command has written to a terminal, and its exit code."""

    text: str
    code: int


def lines_of(text: str) -> List[str]:
    """The lines that a terminal shows in the end which got this text."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[\d*[A-Za-z]|[^\x1b]", text):
        if part == "\x1b[1A":
            row -= 1
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part == "\r":
            column = 0
        elif part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif part[0] != "\x1b":
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines if line.strip()]


def on_terminal(arguments: Sequence[str], folder: Any, **environment: str) -> Shown:
    """Runs `graph-opt` with standard output and standard error on a terminal."""
    ours, theirs = pty.openpty()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables.update({"TERM": "xterm", "PYTHONPATH": root, **environment})
    command = [sys.executable, "-m", "graph_opt.cli", *arguments]
    process = subprocess.Popen(
        command, cwd=str(folder), env=variables, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    chunks: List[bytes] = []
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:  # Linux says so when nobody holds the other end any more.
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(ours)
    return Shown(b"".join(chunks).decode("utf-8").replace("\r\n", "\n"), process.wait())
