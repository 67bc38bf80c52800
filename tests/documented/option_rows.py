"""The rows of the tables of options, as docs/options.md has them."""

from __future__ import annotations

import re
from typing import List, NamedTuple

from tests.documented.page import DOCS

_TABLE = re.compile(r"<!-- options of (\w+) -->\n.*\n.*\n((?:\|.*\n)+)<!-- end -->")


class OptionRow(NamedTuple):
    """What the page says of one option."""

    message: str
    name: str
    kind: str
    default: str
    range: str
    meaning: str


def rows_of_options() -> List[OptionRow]:
    """All rows, in the order of the page."""
    page = (DOCS / "options.md").read_text("utf-8")
    return [
        OptionRow(message, *(cell.strip("` ") for cell in re.split(r" ?\| ?", line)[1:-1]))
        for message, lines in _TABLE.findall(page)
        for line in lines.splitlines()
    ]
