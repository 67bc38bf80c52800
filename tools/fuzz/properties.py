"""The tests that are properties of random models: those marked `@pytest.mark.fuzz("KIND")`."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Dict, Iterator, Tuple


def properties_in(folder: Path) -> Dict[str, str]:
    """Maps each kind to the test of its models, as pytest names it.

    Raises:
      ValueError: Two tests are of one kind.
    """
    found: Dict[str, str] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text("utf-8")
        for kind, name in _marked(text) if "mark.fuzz(" in text else ():
            if kind in found:
                raise ValueError("two tests are marked fuzz({!r})".format(kind))
            found[kind] = "{}::{}".format(path, name)
    return found


def _marked(text: str) -> Iterator[Tuple[str, str]]:
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and getattr(mark.func, "attr", "") == "fuzz":
                yield ast.literal_eval(mark.args[0]), node.name
