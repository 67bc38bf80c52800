"""Lines on standard error that tell how a command goes: in colours on a terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from graph_opt.cli.colours import WARNING, WRONG, has_colour, painted


def say(command: str, text: str) -> None:
    """Prints a notice as one line; `command` is `run`, or "" for `graph-opt` alone."""
    _print(command, text, "")


def say_wrong(command: str, text: str) -> None:
    """Prints what has ended the command, as one line, whose beginning is red."""
    _print(command, text, WRONG)


def warn(command: str, text: str) -> None:
    """Prints what the command has gone on after, as one line, whose beginning is yellow."""
    _print(command, text, WARNING)


def _print(command: str, text: str, style: str) -> None:
    # A name in a file must not break the line or control the terminal.
    one_line = " ".join(text.split())
    printed = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in one_line)
    start = " ".join(["graph-opt", command]).rstrip() + ":"
    if style and has_colour(sys.stderr):
        start = painted(start, style)
    with _above_bars():
        print(start, printed, file=sys.stderr, flush=True)


def _above_bars() -> Any:
    """Hides the bar that a command may show (`Progress`) while a line is printed."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is None:
        return contextlib.nullcontext()
    return tqdm.tqdm.external_write_mode(file=sys.stderr)
