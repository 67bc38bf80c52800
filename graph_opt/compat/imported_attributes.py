"""Replaces an attribute of a module that may not be imported yet, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Callable, Optional, Sequence


class ImportedAttribute(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An attribute that is replaced as soon as its module is imported.

    Args:
      module: Name of the module.
      path: Where the attribute is in it, such as `"Estimator.train"`.
      replacement: Gives the new value for the module's own, which is None if there is none; None
        to leave it.
      stand_in: Makes the module if there is none of that name; None to make none.
    """

    def __init__(
        self,
        module: str,
        path: str,
        replacement: Callable[[Any], Any],
        stand_in: Optional[Callable[[str], ModuleType]] = None,
    ) -> None:
        self._module = module
        self._owner, _, self._name = path.rpartition(".")
        self._replacement = replacement
        self._stand_in = stand_in
        self._loader: Any = None
        self._changed: Any = None
        self._before: Any = None

    def put(self) -> None:
        """Replaces the attribute from now on."""
        if self in sys.meta_path:
            return
        sys.meta_path.insert(0, self)
        if self._module in sys.modules:
            self._replace_in(sys.modules[self._module])

    def take_back(self) -> None:
        """Undoes `put`."""
        if self not in sys.meta_path:
            return
        sys.meta_path.remove(self)
        module, self._changed = self._changed, None
        if module is None:
            return
        if self._before is not None:
            setattr(self._owner_in(module), self._name, self._before)
        elif sys.modules.get(self._module) is module:
            del sys.modules[self._module]

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Finds the module as others do, or its stand-in; see `importlib.abc.MetaPathFinder`."""
        if fullname != self._module:
            return None
        self._loader = None
        for finder in [one for one in sys.meta_path if one is not self]:
            spec = (
                finder.find_spec(fullname, path, target) if hasattr(finder, "find_spec") else None
            )
            if spec is not None:
                self._loader, spec.loader = spec.loader, self
                return spec
        if self._stand_in is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        """The module as its own loader makes it, or its stand-in."""
        if self._loader is not None:
            created: Optional[ModuleType] = self._loader.create_module(spec)
            return created
        assert self._stand_in is not None
        return self._stand_in(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module's own code, if it has any, and replaces the attribute."""
        if self._loader is not None:
            assert module.__spec__ is not None
            module.__spec__.loader = module.__loader__ = self._loader
            self._loader.exec_module(module)
        self._replace_in(module)

    def _replace_in(self, module: ModuleType) -> None:
        owner = self._owner_in(module)
        before = getattr(owner, self._name, None)
        value = self._replacement(before)
        if value is not None:
            self._changed, self._before = module, before
            setattr(owner, self._name, value)

    def _owner_in(self, module: ModuleType) -> Any:
        return getattr(module, self._owner) if self._owner else module
