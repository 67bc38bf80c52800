"""How deep the messages of a text proto are nested.

Protobuf reads no binary message of more than 100 levels. Its parsers of text have no such limit:
that in C++ overflows its stack, and that in Python exceeds the interpreter's recursion limit.
"""

from __future__ import annotations

import re
from typing import Optional

import numpy as np

MOST_LEVELS = 100

_STRING_OR_COMMENT = re.compile(
    rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|' + rb"'[^'\\\n]*(?:\\.[^'\\\n]*)*'|#[^\n]*"
)
_OPENING, _CLOSING = b"{<", b"}>"


def too_deep(text: bytes) -> Optional[int]:
    """The line, from 1, at which a text is nested deeper than protobuf reads; None if it is not."""
    bare = _STRING_OR_COMMENT.sub(b"", text)
    letters = np.frombuffer(bare, np.uint8)
    opening = np.isin(letters, list(_OPENING))
    places = np.flatnonzero(opening | np.isin(letters, list(_CLOSING)))
    levels = np.cumsum(np.where(opening[places], 1, -1), dtype=np.int64)
    deep = np.flatnonzero(levels > MOST_LEVELS)
    return 1 + bare.count(b"\n", 0, int(places[deep[0]])) if len(deep) else None
