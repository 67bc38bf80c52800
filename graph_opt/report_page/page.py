"""Writes a page: markup, styles, scripts and data in one file, which runs nothing but its own.

Whatever comes from a graph is in one block of JSON, in which nothing can end the block, and reaches
the document only as text. The policy of the page allows the scripts and styles of this package by
their hashes, and neither any other nor a connection.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
from typing import Any, Dict, List
from xml.sax.saxutils import escape

from graph_opt.reporting.tables import printable

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "web")
_STYLES = ("page.css",)
_SCRIPTS = (
    "elements.js",
    "graph_model.js",
    "graph_tree.js",
    "graph_layout.js",
    "graph_paths.js",
    "colours.js",
    "graph_drawing.js",
    "graph_motion.js",
    "graph_details.js",
    "graph_search.js",
    "graph_panel.js",
    "sortable_table.js",
    "run_figures.js",
    "overview.js",
    "lookups.js",
    "timeline.js",
    "page.js",
)
_LAYOUT = os.path.join("vendor", "dagre.min.js")
# Ends what the JSON is in, begins a comment, or ends a line of a script: JSON has escapes for all.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def page_html(content: Dict[str, Any]) -> str:
    """The page with this content, as `page_content` returns it.

    Example:
      >>> page_html(page_content(PageSource("graph.pb", report, graph_def)))
      '<!DOCTYPE html>...'
    """
    layout, script, style = _script_of_layout(), _script(), _style()
    parts = {
        "@POLICY@": _policy([layout, script], [style]),
        "@TITLE@": escape(printable(content["title"])),
        "@TEXT@": escape(_printable_lines(content["text"])),
        "@STYLE@": style,
        "@DATA@": json_for_html(content),
        "@LAYOUT@": layout,
        "@SCRIPT@": script,
    }
    pieces: List[str] = []
    for line in _read("page.html").splitlines():
        for mark, text in parts.items():
            if mark in line:
                head, _, tail = line.partition(mark)
                line = head + text + tail
                break  # What was put in may look like another mark.
        pieces.append(line)
    return "\n".join(pieces) + "\n"


def json_for_html(plain: Any) -> str:
    r"""JSON for a script block: ASCII, in which `<`, `>` and `&` are escaped.

    Example:
      >>> json_for_html("</script>")
      '"\\u003c/script\\u003e"'
    """
    return json.dumps(plain, separators=(",", ":")).translate(_ESCAPES)


def _policy(scripts: List[str], styles: List[str]) -> str:
    return "; ".join(
        [
            "default-src 'none'",
            "script-src " + " ".join(map(_hash, scripts)),
            "style-src " + " ".join(map(_hash, styles)),
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "'sha256-{}'".format(base64.b64encode(digest).decode("ascii"))


@functools.lru_cache(maxsize=None)
def _script() -> str:
    bodies = "\n".join(_read(name) for name in _SCRIPTS)
    return '"use strict";\n(() => {\n' + bodies + "\n})();"


@functools.lru_cache(maxsize=None)
def _script_of_layout() -> str:
    # The map that it names is not there, and browsers would look for it.
    lines = _read(_LAYOUT).splitlines()
    return "\n".join(line for line in lines if not line.startswith("//# sourceMappingURL"))


@functools.lru_cache(maxsize=None)
def _style() -> str:
    return "\n".join(_read(name) for name in _STYLES)


def _read(name: str) -> str:
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()


def _printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.splitlines())
