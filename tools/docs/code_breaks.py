"""Lets long names in code wrap where their parts end, as columns of tables are narrow.

Options wrap nowhere else: a browser would break `--ps` behind its hyphens.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_CODE = re.compile(r'<span class="pre">([^<]+)</span>')
_END_OF_PART = re.compile(r"(?<=\w)([_./=(]+)(?=\w)")
_LONG_NAME = re.compile(r"\b(?:[A-Z][a-z0-9]+){2,}[A-Z]?\b")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])")
_LONGEST = 20  # letters of a name in one line


def add_code_breaks(folder: Path) -> None:
    """Marks in all pages of a site where a line may break within code; copied text stays the same.

    Args:
      folder: Of the pages, which are changed.
    """
    for path in folder.rglob("*.html"):
        path.write_text(with_code_breaks(path.read_text("utf-8")), "utf-8")


def with_code_breaks(page: str) -> str:
    """The HTML of a page with these marks."""
    return _CODE.sub(_broken, page)


def _broken(found: Any) -> str:
    text = found.group(1)
    classes = "pre option" if text.startswith("-") else "pre"
    text = _LONG_NAME.sub(_with_humps, text)
    return '<span class="{}">{}</span>'.format(classes, _END_OF_PART.sub(r"\1<wbr>", text))


def _with_humps(found: Any) -> str:
    name = str(found.group())
    return _HUMP.sub("<wbr>", name) if len(name) > _LONGEST else name
