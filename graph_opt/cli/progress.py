"""How far a command is, and how long it will take: a bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Mapping, Optional

from graph_opt.cli.colours import is_terminal
from graph_opt.cli.parser import WIDEST
from graph_opt.launch.terminal_size import terminal_size

# Parts of what commands do with graph files, with the shares of the time that they take.
GRAPH_PARTS = {
    "reading": 0.1,
    "inferring shapes": 0.35,
    "looking for lookups": 0.25,
}
WRITING = "writing"
_QUIET_SECONDS = 2.0
_SECONDS_BETWEEN = 0.25
_MOST_GUESSED = 0.95
_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}, {remaining} left"
_BESIDE = len(": 100%|" + "#" * 5 + "| 00:00, 00:00 left")  # what is named, on a line


class Progress:
    """The progress of a command that does one part after the other.

    Nothing is shown within the first two seconds, nor if standard error is no terminal. Of a part
    that does not tell how far it is, that is guessed from how long those before it took.

    Args:
      name: What the command works on, as the user calls it.
      parts: The parts in their order, each with its share of the time.
      seconds: How long the first part may take, if that is known.

    Example:
      >>> with Progress("graph.pb", {"reading": 1.0, "rewriting": 2.0}) as progress:
      ...     progress.begins("reading")
      ...     progress.reached(10, 100)
      ...     progress.begins("rewriting")
    """

    def __init__(self, name: str, parts: Mapping[str, float], seconds: float = 0.0) -> None:
        self._name = name
        self._seconds = seconds
        self._parts = parts
        self._total = sum(parts.values())
        self._started = self._begun = time.monotonic()
        self._part = next(iter(parts))
        self._before = 0.0  # the share of the parts before
        self._share = 0.0  # how much of this part is done, as far as it tells
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def __enter__(self) -> Progress:
        if is_terminal(sys.stderr):
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def begins(self, part: str) -> None:
        """Says that a part begins, and so that those before it are done."""
        names = list(self._parts)
        before = sum(self._parts[name] for name in names[: names.index(part)])
        self._before, self._share = before / self._total, 0.0
        self._part, self._begun = part, time.monotonic()

    def reached(self, done: float, of: float) -> None:
        """Says how much of the part is done."""
        self._share = min(done / of, 1.0) if of else 0.0

    @property
    def fraction(self) -> float:
        """How much of all is done, from 0.0 to 1.0."""
        now = time.monotonic()
        part = self._parts[self._part] / self._total
        share = self._share
        expected = self._seconds
        if self._before:
            expected = (self._begun - self._started) / self._before * part
        if not share and expected:
            share = min((now - self._begun) / expected, _MOST_GUESSED)
        return self._before + part * share

    def _show(self) -> None:
        if self._ended.wait(_QUIET_SECONDS):
            return
        from tqdm import tqdm

        # tqdm shows nothing on a terminal that does not tell its size.
        columns, lines = terminal_size()
        width = min(columns - len("^C "), WIDEST)  # A terminal shows these keys behind the bar.
        place = {"ncols": width, "nrows": lines}
        shown = {"bar_format": _FORMAT, "leave": False, "file": sys.stderr}
        with tqdm(total=1.0, desc=self._named_within(width), **shown, **place) as bar:
            bar.start_t -= time.monotonic() - self._started
            while True:
                bar.n = max(bar.n, self.fraction)  # What was guessed may have been too much.
                bar.set_description_str(self._named_within(width), refresh=True)
                if self._ended.wait(_SECONDS_BETWEEN):
                    return

    def _named_within(self, width: int) -> str:
        """What the command works on, as far as a line has room for it beside the time left."""
        room = width - _BESIDE
        names = ["graph-opt", self._name, self._part]
        said = (": ".join(names[first:]) for first in range(len(names)))
        return next((text for text in said if len(text) <= room), self._part[: max(room, 0)])
