"""Reports on standard error what a command is doing with a large graph."""

from __future__ import annotations

import sys
import time

_SECONDS_BETWEEN = 1.0
_MANY_NODES = 20_000


class Progress:
    """Progress of one command; prints nothing for graphs that take no time.

    Args:
      name: The user's name for the graph.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._said = time.monotonic()

    def reading(self, done: int, size: int) -> None:
        """Reports the bytes read so far, and the total."""
        if done < size and time.monotonic() - self._said >= _SECONDS_BETWEEN:
            self._say("read {} of {} MB".format(done // 1_000_000, size // 1_000_000))

    def begins(self, what: str, nodes: int) -> None:
        """Reports that a part of the work begins, and on how many nodes."""
        if nodes >= _MANY_NODES:
            self._say("{}, {} nodes".format(what, nodes))

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        print("graph-opt: {}: {}".format(self._name, text), file=sys.stderr)
