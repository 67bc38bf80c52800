"""Names on the pages: all are there to be imported, and each public one has a place on a page."""

from __future__ import annotations

import importlib
import re
from typing import Any, Dict

import pytest

import graph_opt
import graph_opt.train
from graph_opt import sok
from tests.documented.page import DOCS, REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted(DOCS.glob("*.md"))]
ROOTS: Dict[str, Any] = {"graph_opt": graph_opt, "sok": sok}
NAME = re.compile(r"\b(graph_opt|sok)((?:\.[A-Za-z_]\w*)+)")
FILES = (".json", ".md", ".pbtxt", ".py")


def is_there(name: str) -> bool:
    """Whether a dotted name is an attribute, or a module, of a public one."""
    root, *parts = name.split(".")
    found = ROOTS[root]
    for part in parts:
        if not hasattr(found, part):
            spec = getattr(found, "__name__", "") + "." + part
            try:
                importlib.import_module(spec)
            except ImportError:
                return False
        found = getattr(found, part)
    return True


def test_all_names_on_the_pages_are_there() -> None:
    named = {
        match.group(0)
        for page in PAGES
        for match in NAME.finditer(page.read_text("utf-8"))
        if not match.group(0).endswith(FILES)
    }
    assert len(named) > 60
    assert [name for name in sorted(named) if not is_there(name)] == []


@pytest.mark.parametrize("module", (graph_opt, graph_opt.train, sok))
def test_every_public_name_is_on_a_page(module: Any) -> None:
    words = set(re.findall(r"\w+", "\n".join(page.read_text("utf-8") for page in PAGES)))
    assert [name for name in module.__all__ if name not in words] == []
