"""Lines that stay the last ones of a terminal, while others are printed above them."""

from __future__ import annotations

import sys
import threading
from typing import IO, Any, Callable, Dict, Optional, Sequence, Tuple

from graph_opt.launch.terminal_size import terminal_size

_ERASE_LINE = "\x1b[2K"
_UP = "\x1b[1A"


class BottomLines:
    """What several processes show at the bottom of a terminal: their bars, then other lines.

    Elsewhere nothing is erased or shown anew.

    Args:
      stream: Where they go.

    Example:
      >>> bottom = BottomLines(sys.stderr)
      >>> bottom.show_bar("chief", "[chief] 12%|#    |")
      >>> bottom.above(lambda: print("loss 0.5"))
    """

    def __init__(self, stream: Optional[IO[str]] = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.is_terminal = self._stream.isatty()
        self._lock = threading.RLock()
        self._bars: Dict[str, str] = {}
        self._lines: Tuple[str, ...] = ()
        self._shown = 0
        self._is_broken = False

    def above(self, print_line: Callable[[], Any], instead_of: str = "") -> None:
        """Prints something else, without tearing the lines.

        Args:
          print_line: Prints it.
          instead_of: Whose bar it ends, if there is one.
        """
        with self._lock:
            erased = self._erased()
            self._bars.pop(instead_of, None)
            self._write(erased)
            print_line()
            self._write(self._drawn())

    def show_bar(self, name: str, bar: str) -> None:
        """Shows a bar; an empty one ends it."""
        with self._lock:
            erased = self._erased()
            if bar:
                self._bars[name] = bar
            else:
                self._bars.pop(name, None)
            self._write(erased + self._drawn())

    def show_lines(self, lines: Sequence[str]) -> None:
        """Shows other lines, below the bars."""
        with self._lock:
            erased = self._erased()
            self._lines = tuple(lines)
            self._write(erased + self._drawn())

    def _erased(self) -> str:
        return (_UP + _ERASE_LINE) * self._shown

    def _drawn(self) -> str:
        room = terminal_size().columns - 1  # A line that wraps could not be erased.
        lines = (*self._bars.values(), *self._lines) if self.is_terminal else ()
        self._shown = len(lines)
        return "".join(line[:room] + "\n" for line in lines)

    def _write(self, text: str) -> None:
        if not text or self._is_broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._is_broken = True  # Nobody reads it.
