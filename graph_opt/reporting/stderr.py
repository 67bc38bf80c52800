"""Lines that a user sees whatever a script does to TensorFlow's log."""

from __future__ import annotations

import sys

_PREFIX = "graph_opt: "


def say(text: str) -> None:
    """Writes one line to stderr; a process without one, or whose reader has gone, goes on."""
    line = _PREFIX + " ".join(text.split())
    try:
        print(line, file=sys.stderr, flush=True)
    except (AttributeError, OSError, ValueError):
        pass
