"""Lets long names wrap where their parts end, as columns of tables and phones are narrow.

Options wrap nowhere else: a browser would break `--ps` behind its hyphens.
"""

from __future__ import annotations

import html
import re
from typing import Any

_NAME = re.compile(
    r'<code class="([^"]*\bliteral\b[^"]*)">((?:<span class="pre">[^<]*</span>\s*)+)</code>'
)
_CODE = re.compile(r'<span class="pre">([^<]+)</span>')
# A parameter, or an error; and a heading, which may name a file. They break in long words alone.
_BOLD = re.compile(r'(?<=<strong>)[\w.]+(?=</strong>)|(?<=<h[1-4]>)[^<]+(?=<a class="headerlink")')
_LONG_WORD = re.compile(r"\S{25,}")
_PARENTHESIS = re.compile(r'<span class="sig-paren">\(</span>')
_END_OF_PART = re.compile(r"(?<=\w)([_./=(]+)(?=\w)")
_LONG_NAME = re.compile(r"\b(?:[A-Z]+[a-z0-9]+){2,}[A-Z]?\b")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])")
_LONGEST = 20  # letters of a name in one line
_SHORT = 21  # letters that wrap on a phone alone


def with_code_breaks(page: str) -> str:
    """The HTML of a page that marks where a line may break within code, and which code is `short`.

    Copied text stays the same.
    """
    page = _BOLD.sub(_long_words, _PARENTHESIS.sub(r"\g<0><wbr>", page))
    return _CODE.sub(_broken, _NAME.sub(_named, page))


def _long_words(found: Any) -> str:
    return _LONG_WORD.sub(lambda word: _parts(word.group()), found.group())


def _parts(name: str) -> str:
    return _END_OF_PART.sub(r"\1<wbr>", name)


def _named(found: Any) -> str:
    classes, parts = found.groups()
    letters = len(html.unescape(re.sub(r"<[^>]+>", "", parts)))
    if letters > _SHORT:
        return str(found.group())
    return '<code class="{} short">{}</code>'.format(classes, parts)


def _broken(found: Any) -> str:
    text = found.group(1)
    classes = "pre option" if text.startswith("-") else "pre"
    text = _LONG_NAME.sub(_with_humps, text)
    return '<span class="{}">{}</span>'.format(classes, _parts(text))


def _with_humps(found: Any) -> str:
    name = str(found.group())
    return _HUMP.sub("<wbr>", name) if len(name) > _LONGEST else name
