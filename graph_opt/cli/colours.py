"""Colours, where a stream is a terminal that shows them."""

from __future__ import annotations

import os
from typing import IO, Optional

HEADING = "1"
COMMAND = "36"
WRONG = "1;31"
WARNING = "33"
WELL = "32"


def has_colour(stream: Optional[IO[str]]) -> bool:
    """Whether to use colours: the stream is a terminal, and the user has not set `NO_COLOR`."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(stream)


def is_terminal(stream: Optional[IO[str]]) -> bool:
    """Whether somebody reads the stream as it is written."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # It is closed.
        return False


def painted(text: str, style: str) -> str:
    """The text in a style, for a stream that `has_colour`."""
    return "\x1b[{}m{}\x1b[0m".format(style, text)
