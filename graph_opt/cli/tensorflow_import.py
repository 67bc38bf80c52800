"""What happens when a program first imports TensorFlow.

TensorFlow is not loaded before: environment variables that a program sets at its start, such as
`TF_ENABLE_ONEDNN_OPTS`, count as they do under Python.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any, Callable, Optional, Sequence

NAME = "tensorflow"
_OURS = "graph_opt"


class TensorFlowImport(importlib.abc.MetaPathFinder):
    """Calls back once TensorFlow is loaded, and shows the program what comes back from there.

    Libraries installed beside TensorFlow were written for the version that is installed: while one
    of their modules is imported, `tensorflow` is what it was. Where graph_opt's own modules load
    TensorFlow, for a program that uses graph_opt too, the call waits until they are complete.

    Args:
      on_loaded: Called when TensorFlow has been loaded, once; returns the module that
        `import tensorflow` is to give from then on, None for TensorFlow itself.
      own_package: Top-level package of the program, if it is installed beside TensorFlow; "" for
        none.
    """

    def __init__(
        self, on_loaded: Callable[[], Optional[ModuleType]], own_package: str = ""
    ) -> None:
        self._on_loaded = on_loaded
        self._own = own_package
        self._stock: Optional[ModuleType] = None
        self._shown: Optional[ModuleType] = None
        self._libraries = 0
        self._ours = 0
        self.is_told = False
        self._folder = ""

    def watch(self) -> None:
        """Starts waiting for the import; where it has been, calls back at once.

        Who waited before no longer does: a process may begin as its parent tells it, and then be
        told otherwise.
        """
        stop_watching()
        if NAME in sys.modules:
            self._stock = sys.modules[NAME]
            self._tell()
        spec = importlib.machinery.PathFinder.find_spec(NAME)
        if spec is None or spec.origin is None or (self.is_told and self._shown is None):
            return  # Without TensorFlow the program is told so by its own import.
        self._folder = os.path.join(os.path.dirname(os.path.dirname(spec.origin)), "")
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """As `importlib.machinery.PathFinder`, for TensorFlow and the libraries beside it."""
        top = fullname.partition(".")[0]
        if top == self._own or (top == NAME and (fullname != NAME or self._stock is not None)):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None or not spec.origin:
            return None
        if top != _OURS and not spec.origin.startswith(self._folder):
            return None
        spec.loader = _Loader(spec.loader, self)
        return spec

    def load(self, loader: Any, module: ModuleType) -> None:
        """Runs a module of a library, or TensorFlow itself, with the stock TensorFlow."""
        is_ours = module.__name__.partition(".")[0] == _OURS
        self._libraries += 1
        self._ours += is_ours
        if self._stock is not None:
            sys.modules[NAME] = self._stock
        try:
            loader.exec_module(module)
            if module.__name__ == NAME:
                self._stock = module
            if self._stock is not None and not self.is_told and self._ours == is_ours:
                self._tell()
        finally:
            self._libraries -= 1
            self._ours -= is_ours
            if self._shown is not None and not self._libraries:
                sys.modules[NAME] = self._shown

    def _tell(self) -> None:
        self.is_told = True
        self._shown = self._on_loaded()
        if self._shown is None and self in sys.meta_path:
            sys.meta_path.remove(self)
        if self._shown is not None and not self._libraries:
            sys.modules[NAME] = self._shown


def stop_watching() -> None:
    """Ends all waiting for an import that has not been yet."""
    for finder in list(sys.meta_path):
        if isinstance(finder, TensorFlowImport) and not finder.is_told:
            sys.meta_path.remove(finder)


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, imports: TensorFlowImport) -> None:
        self._loader = loader
        self._imports = imports

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        created: Optional[ModuleType] = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module is as if its own loader had found it.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._imports.load(self._loader, module)
