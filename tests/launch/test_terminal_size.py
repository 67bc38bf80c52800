"""The size of a terminal that says how large it is, and of one that does not."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

PRINTS = "from graph_opt.launch.terminal_size import terminal_size; print(tuple(terminal_size()))"


@pytest.mark.parametrize(
    ("lines", "columns", "expected"), [(50, 132, (132, 50)), (0, 0, (80, 24)), (0, 132, (132, 24))]
)
def test_terminals(lines: int, columns: int, expected: object) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    names = ("COLUMNS", "LINES")
    variables = {name: value for name, value in os.environ.items() if name not in names}
    subprocess.run(
        [sys.executable, "-c", PRINTS],
        cwd=str(REPOSITORY),
        env=variables,
        stdout=theirs,
        check=True,
    )
    os.close(theirs)
    try:
        assert os.read(ours, 100).decode().strip() == str(expected)
    finally:
        os.close(ours)
