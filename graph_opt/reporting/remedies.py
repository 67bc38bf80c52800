"""What a user can do about each refusal, as `refusals.txt` says; docs/refusals.md is made of it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Dict

_ROWS = Path(__file__).with_name("refusals.txt")


@functools.lru_cache(maxsize=None)
def remedies() -> Dict[str, str]:
    """What to do by code, as plain text: the last cell of each row."""
    rows = _ROWS.read_text("utf-8").replace("`", "").splitlines()
    cells = [row.strip("| ").split(" | ") for row in rows]
    return {code: what_to_do for code, _, what_to_do in cells}


def remedy(code: str) -> str:
    """What a user can do about a refusal; "" if it has no row."""
    return remedies().get(code, "")
