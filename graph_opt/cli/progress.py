"""What a command on a large graph is doing, on standard error."""

from __future__ import annotations

import sys
import time

_SECONDS_BETWEEN = 1.0
_MANY_NODES = 20_000


class Progress:
    """Says nothing for graphs that are done at once.

    Args:
      name: What the user calls the graph.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._said = time.monotonic()

    def reading(self, done: int, size: int) -> None:
        """Bytes read so far, and those there are."""
        if done < size and time.monotonic() - self._said >= _SECONDS_BETWEEN:
            self._say("read {} of {} MB".format(done // 1_000_000, size // 1_000_000))

    def begins(self, what: str, nodes: int) -> None:
        """A part of the work, in words, and the nodes it is done to."""
        if nodes >= _MANY_NODES:
            self._say("{}, {} nodes".format(what, nodes))

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        print("graph-opt: {}: {}".format(self._name, text), file=sys.stderr)
