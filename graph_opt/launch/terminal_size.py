"""How many columns and lines the terminal has."""

from __future__ import annotations

import os
import shutil

_COLUMNS, _LINES = 80, 24


def terminal_size() -> os.terminal_size:
    """Like `shutil.get_terminal_size`, which returns zeros for some terminals before Python 3.8."""
    columns, lines = shutil.get_terminal_size((_COLUMNS, _LINES))
    return os.terminal_size((columns or _COLUMNS, lines or _LINES))
