"""Modules of graph_opt under the names that scripts import them by. Loads nothing by itself."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Dict, Mapping, Optional, Sequence

MODULES = {
    "sparse_operation_kit": "graph_opt.sok",
    # Where releases 1.2 had what release 2 has at the top.
    "sparse_operation_kit.experiment": "graph_opt.sok",
    "distributed_embeddings": "graph_opt.distributed_embeddings",
    "hybridbackend": "graph_opt.strategy.hybridbackend",
}


class ModuleAliases(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules, and those below them, under other names: the same modules, not copies.

    Args:
      targets: From the alias to the module's own name.

    Example:
      >>> ModuleAliases({"sparse_operation_kit": "graph_opt.sok"}).put()
      >>> import sparse_operation_kit as sok
    """

    def __init__(self, targets: Mapping[str, str]) -> None:
        self._targets = dict(targets)
        self._before: Dict[str, ModuleType] = {}
        self._own_specs: Dict[str, Any] = {}

    def put(self) -> None:
        """Makes imports find the aliases from now on, also where a module has such a name."""
        if self in sys.meta_path:
            return
        self._before = self._taken_out()
        sys.meta_path.insert(0, self)

    def take_back(self) -> None:
        """Undoes `put`. Whoever has imported a module keeps it."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._taken_out()
            sys.modules.update(self._before)

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Finds aliases; see `importlib.abc.MetaPathFinder`."""
        if self._target(fullname) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module that the alias stands for."""
        target = self._target(spec.name) or ""
        try:
            module = importlib.import_module(target)
        except ModuleNotFoundError as error:
            if error.name != target:
                raise
            raise ModuleNotFoundError(
                "No module named {!r} ({})".format(spec.name, _why_missing(target)),
                name=spec.name,
            ) from None
        self._own_specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leaves the module as it is: under its own name, it has been executed."""
        spec = module.__spec__
        module.__spec__ = self._own_specs.pop(spec.name) if spec is not None else None

    def _target(self, fullname: str) -> Optional[str]:
        alias = fullname
        while alias and alias not in self._targets:
            alias = alias.rpartition(".")[0]
        return self._targets[alias] + fullname[len(alias) :] if alias else None

    def _taken_out(self) -> Dict[str, ModuleType]:
        """Removes all modules under the aliases' names from those that are loaded."""
        names = [name for name in sys.modules if self._target(name) is not None]
        return {name: sys.modules.pop(name) for name in names}


def _why_missing(target: str) -> str:
    """What the package above a module says of its name, if it is one that says what to use."""
    above, _, name = target.rpartition(".")
    try:
        getattr(sys.modules.get(above), name)
    except AttributeError as error:
        if str(error).startswith("graph_opt"):
            return str(error)
    return "graph_opt has no " + target


libraries_of_sharded_tables = ModuleAliases(MODULES)
