"""Modules that import each other, directly or through others."""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping, Set

import networkx

from tests.repository_checks import imports_of

Imports = Mapping[str, Iterable[str]]


def imports_that_run(source: str, module: str) -> List[str]:
    """`MODULE.NAME` of every import of a file, including imports inside functions.

    Imports only for type checkers do not count, since they never run.
    """
    found = imports_of(source, module, for_types=False)
    return [origin + "." + name for _, origin, name in found]


def import_cycles(imports: Imports) -> List[List[str]]:
    """Groups of modules that import each other.

    Args:
      imports: The `imports_that_run` of each module by its dotted name; a package's is
        `package.__init__`.

    Example:
      >>> import_cycles({"a.b": ["a.c."], "a.c": ["a.b"], "a.d": ["a.b"]})
      [['a.b', 'a.c']]
    """
    graph = networkx.DiGraph(_imported(imports))
    components = networkx.strongly_connected_components(graph)
    return sorted(sorted(found) for found in components if len(found) > 1)


def _imported(imports: Imports) -> Dict[str, Set[str]]:
    """The modules that each module imports; a name that is not a module belongs to its package."""
    modules = {_importable(name) for name in imports}
    imported: Dict[str, Set[str]] = {}
    for name, full_names in imports.items():
        module = imported.setdefault(_importable(name), set())
        module.update(full if full in modules else full.rpartition(".")[0] for full in full_names)
    return {name: (found & modules) - {name} for name, found in imported.items()}


def _importable(name: str) -> str:
    return name[: -len(".__init__")] if name.endswith(".__init__") else name
