"""Marks in pages what the style sheet lays out by its content, since Markdown has no classes."""

from __future__ import annotations

import html
import re
from typing import Any

_CELL = re.compile(r"<(td|th)((?: [^>]*)?)>(.*?)</\1>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_LEAST_OF_PROSE = 40  # letters of a cell that needs some width to be read
_NUMBER = r"[-+]?\d[\d.,]*"
_WHOLE = re.compile(
    r"\({0} to {0}\)|{0} (?:steps/s|[KMGT]i?B|ms)\b|\b\d+ \+ \d+\b|\b\d{{4}}-\d\d-\d\d\b".format(
        _NUMBER
    )
)
_OUTPUT = re.compile(
    r'(?<=<div class="highlight-(?:none|text) notranslate"><div class="highlight"><pre>)'
    r".*?(?=</pre>)",
    re.DOTALL,
)
_DRAWING = re.compile(r"[\u2190-\u21ff\u2500-\u257f]|->")
_COLUMNS = re.compile(r"\S {2,}\S")
_WITHOUT_BREAK = re.compile(r"\S+ \\$|(?<!\S)--?\w[\w-]*")  # the end of a line, an option
_PICTURE = re.compile(r'<img [^>]*src="([^"]+)"[^>]*/>')


def with_layout_marks(page: str) -> str:
    """The HTML of a page with these marks.

    - Cells with a sentence are of the class `prose`.
    - Ranges, quantities and dates in cells are spans of the class `whole`.
    - Lines of commands and messages are spans of the class `sentence`, and may wrap. Those of
      tables and drawings are not, for they would lose their shape.
    - Pictures lead to themselves in full size.
    """
    page = _CELL.sub(_cell, page)
    page = _OUTPUT.sub(_output, page)
    return _PICTURE.sub(r'<a class="picture" href="\1">\g<0></a>', page)


def _cell(found: Any) -> str:
    name, attributes, content = found.groups()
    is_prose = name == "td" and len(_text(content)) >= _LEAST_OF_PROSE
    marked = _WHOLE.sub(r'<span class="whole">\g<0></span>', content)
    kind = ' class="prose"' if is_prose and not attributes else ""
    return "<{0}{1}{2}>{3}</{0}>".format(name, attributes, kind, marked)


def _output(found: Any) -> str:
    block = str(found.group())
    if _DRAWING.search(_text(block)):
        return block
    return "\n".join(_line(line) for line in block.split("\n"))


def _line(line: str) -> str:
    is_whole = line.count("<span") == line.count("</span>")
    if not is_whole or not _text(line) or _COLUMNS.search(_text(line)):
        return line
    marked = _WITHOUT_BREAK.sub(r'<span class="option">\g<0></span>', line)
    return '<span class="sentence">{}</span>'.format(marked)


def _text(content: str) -> str:
    return html.unescape(_TAG.sub("", content))
