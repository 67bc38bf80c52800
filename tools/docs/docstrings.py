"""Makes docstrings, whose code is marked as in Markdown, what Sphinx reads."""

from __future__ import annotations

import re
from typing import Any, List, Optional, Tuple

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)(\w?)")  # and what follows without a space
_OBJECT = re.compile(r"<(?:[\w. ]*object|function [\w.<>]+)(?: at 0x\w+)?>")
_FENCE = "```"
_INDENT = "    "
_PUBLIC = re.compile(r"(graph_opt|sok)(\.\w+)+$")


def to_restructured_text(
    app: Any, what: str, name: str, documented: Any, options: Any, lines: List[str]
) -> None:
    """Rewrites the lines of a docstring in place; Sphinx calls it for each."""
    lines[:] = _lines(lines)


def without_addresses(
    app: Any,
    what: str,
    name: str,
    documented: Any,
    options: Any,
    signature: Optional[str],
    returns: Optional[str],
) -> Tuple[Optional[str], Optional[str]]:
    """The signature and the result of a name, with `...` for defaults that are bare objects."""
    return signature and _OBJECT.sub("...", signature), returns


def _lines(lines: List[str]) -> List[str]:
    """The lines, with blocks between fences as literal blocks."""
    written: List[str] = []
    is_literal = False
    for line in lines:
        if line.strip() == _FENCE:
            is_literal = not is_literal
            written += [line.replace(_FENCE, "::"), ""] if is_literal else [""]
        else:
            written.append(_INDENT + line if is_literal else _line(line))
    return written


def _line(line: str) -> str:
    return line if line.lstrip().startswith(">>>") else _CODE.sub(_marked, line)


def _marked(found: Any) -> str:
    """Public names become links, all other code stays code."""
    name, following = found.groups()
    marked = (":py:obj:`{}`" if _PUBLIC.match(name) else "``{}``").format(name)
    return marked + ("\\ " + following if following else "")
