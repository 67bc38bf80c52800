"""Modules that import each other, directly or through others."""

from __future__ import annotations

from typing import Dict, List, Mapping, Set

import networkx

from tests.repository_checks import imports_of


def import_cycles(sources: Mapping[str, str]) -> List[List[str]]:
    """Groups of modules that import each other, including imports inside functions.

    Imports only for type checkers do not count, since they never run.

    Args:
      sources: Text of each module by its dotted name; a package's is `package.__init__`.

    Example:
      >>> import_cycles({"a.b": "import a.c", "a.c": "def f():\n    from a import b"})
      [['a.b', 'a.c']]
    """
    graph = networkx.DiGraph(_imported(sources))
    components = networkx.strongly_connected_components(graph)
    return sorted(sorted(found) for found in components if len(found) > 1)


def _imported(sources: Mapping[str, str]) -> Dict[str, Set[str]]:
    """The modules that each module imports; a name that is not a module belongs to its package."""
    modules = {_importable(name) for name in sources}
    imported: Dict[str, Set[str]] = {}
    for name, source in sources.items():
        module = imported.setdefault(_importable(name), set())
        for _, origin, attribute in imports_of(source, name, for_types=False):
            full = origin + "." + attribute
            module.add(full if full in modules else origin)
    return {name: (found & modules) - {name} for name, found in imported.items()}


def _importable(name: str) -> str:
    return name[: -len(".__init__")] if name.endswith(".__init__") else name
