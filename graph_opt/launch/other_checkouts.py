"""Which graph_opt was imported, of several: Python looks first where it was started."""

from __future__ import annotations

import os
import sys
from typing import Iterator

_PACKAGE = "graph_opt"
REBUILD = "run 'pip install .' in the project's directory (or 'make' in a checkout)"


def missing_library(what: str, path: str) -> str:
    """What to say of a compiled library that is missing.

    Args:
      what: What is missing, with {} for the path.
      path: Where it should be, below the package's folder.
    """
    taken = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    text = what.format(path)
    for folder in _packages():
        other = os.path.join(folder, os.path.relpath(path, taken))
        if os.path.realpath(folder) != os.path.realpath(taken) and os.path.exists(other):
            return (
                "{}: Python took graph_opt from {}, and {} has the library: start Python in "
                "another folder, or {}".format(text, taken, folder, REBUILD)
            )
    return "{}: {}".format(text, REBUILD)


def _packages() -> Iterator[str]:
    """Folders of graph_opt that Python could import, if others did not come before them."""
    found = [os.path.join(entry or os.getcwd(), _PACKAGE) for entry in sys.path]
    for finder in sys.meta_path:  # Checkouts that were installed with pip's -e may have their own.
        spec = finder.find_spec(_PACKAGE, None) if hasattr(finder, "find_spec") else None
        found.extend(() if spec is None else spec.submodule_search_locations or ())
    return (folder for folder in found if os.path.isdir(folder))
