"""What our own file says of a table's files: of how many rows they are, and their checksums."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional

VERSION = 1


def read_facts(path: str) -> Optional[Dict[str, Any]]:
    """What the file says; None if there is none, as SparseOperationKit writes none.

    Raises:
      ValueError: It is damaged, or of another version.
    """
    try:
        with open(path, encoding="utf-8") as opened:
            facts = json.load(opened)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise ValueError("{} is damaged: {}".format(path, error)) from error
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        raise ValueError("{} is of another version of graph_opt".format(path))
    if not _are_whole(facts):
        raise ValueError("{} is damaged: it lacks or spoils what it says of rows".format(path))
    return facts


def _are_whole(facts: Dict[str, Any]) -> bool:
    """Whether our own file has what is read of it."""
    checked_rows, rows, sums = facts.get("checked_rows"), facts.get("rows"), facts.get("crc32")
    counters, width = facts.get("counters", {}), facts.get("width")
    return (
        isinstance(checked_rows, int)
        and checked_rows > 0
        and isinstance(rows, int)
        and isinstance(sums, dict)
        and all(isinstance(one, list) for one in sums.values())
        and isinstance(counters, dict)
        and all(isinstance(one, (int, float)) for one in counters.values())
        and (width is None or isinstance(width, int))
    )
