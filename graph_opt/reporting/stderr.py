"""Lines that users see, whatever a script does to TensorFlow's log."""

from __future__ import annotations

import sys

_PREFIX = "graph_opt: "


def say(text: str) -> None:
    """Writes one line to stderr; continues if there is no stderr or nobody reads it any more."""
    line = _PREFIX + " ".join(text.split())
    try:
        print(line, file=sys.stderr, flush=True)
    except (AttributeError, OSError, ValueError):
        pass
