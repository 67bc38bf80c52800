"""Lines that users see, whatever a script does to TensorFlow's log."""

from __future__ import annotations

import os
import sys

_PREFIX = "graph_opt: "
_NUMBERS_OF_RANKS = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")  # Set by launchers.


def say(text: str) -> None:
    """Writes one line to stderr; continues if there is no stderr or nobody reads it any more."""
    line = _PREFIX + " ".join(text.split())
    try:
        print(line, file=sys.stderr, flush=True)
    except (AttributeError, OSError, ValueError):
        pass


def say_for_all_ranks(text: str) -> None:
    """The same for a line that each rank of a launcher would write: only the first one does."""
    if all(os.environ.get(name, "0") == "0" for name in _NUMBERS_OF_RANKS):
        say(text)
