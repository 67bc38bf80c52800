"""Acts when a program first imports TensorFlow.

TensorFlow is not loaded before that: environment variables that a program sets when it starts, such
as `TF_ENABLE_ONEDNN_OPTS`, take effect as they do under Python.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

NAME = "tensorflow"
_OURS = "graph_opt"


class TensorFlowImport(importlib.abc.MetaPathFinder):
    """Calls back once TensorFlow is loaded, and gives the program the module that this returns.

    Libraries installed beside TensorFlow were written for the version that is installed: while one
    of their modules is being imported, `tensorflow` is the stock one. If graph_opt's own modules
    load TensorFlow, since the program uses graph_opt too, the call waits until they are complete.

    Args:
      on_loaded: Called once, when TensorFlow has been loaded; returns the modules that `import
        tensorflow` and `import tensorflow.nn` give from then on, by these names; None for
        TensorFlow itself.
      own_package: Top-level package of the program, if it is installed beside TensorFlow; "" for
        none.
    """

    def __init__(
        self, on_loaded: Callable[[], Optional[Mapping[str, ModuleType]]], own_package: str = ""
    ) -> None:
        self._on_loaded = on_loaded
        self._own = own_package
        self._stock: Optional[ModuleType] = None
        self._shown: Optional[Mapping[str, ModuleType]] = None
        self._hidden: Dict[str, ModuleType] = {}
        self._libraries = 0
        self._ours = 0
        self.was_called_back = False
        self._folder = ""

    def watch(self) -> None:
        """Starts waiting for the import; if it has already happened, calls back at once.

        This replaces any earlier watch: a process may first follow its environment, and then get
        other arguments.
        """
        stop_watching()
        if NAME in sys.modules:
            self._stock = sys.modules[NAME]
            self._call_back()
        spec = importlib.machinery.PathFinder.find_spec(NAME)
        if spec is None or spec.origin is None or (self.was_called_back and self._shown is None):
            return  # Without TensorFlow, the program's own import fails and says so.
        self._folder = os.path.join(os.path.dirname(os.path.dirname(spec.origin)), "")
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Like `importlib.machinery.PathFinder`, for TensorFlow and the libraries beside it."""
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
        if self._shown is not None and not self._libraries:
            self._hide()
        self._libraries += 1
        self._ours += is_ours
        try:
            loader.exec_module(module)
            if module.__name__ == NAME:
                self._stock = module
            if self._stock is not None and not self.was_called_back and self._ours == is_ours:
                self._call_back()
        finally:
            self._libraries -= 1
            self._ours -= is_ours
            if self._shown is not None and not self._libraries:
                self._show()

    def _call_back(self) -> None:
        self.was_called_back = True
        self._shown = self._on_loaded()
        if self._shown is None and self in sys.meta_path:
            sys.meta_path.remove(self)
        if self._shown is not None and not self._libraries:
            self._show()

    def _show(self) -> None:
        """Puts the program's modules in the place of those that libraries get."""
        assert self._shown is not None
        self._hidden = {name: sys.modules[name] for name in self._shown if name in sys.modules}
        sys.modules.update(self._shown)

    def _hide(self) -> None:
        """Puts the modules back that libraries get."""
        assert self._shown is not None
        for name in self._shown:
            sys.modules.pop(name, None)
        sys.modules.update(self._hidden)


def stop_watching() -> None:
    """Stops waiting for an import that has not happened yet."""
    for finder in list(sys.meta_path):
        if isinstance(finder, TensorFlowImport) and not finder.was_called_back:
            sys.meta_path.remove(finder)


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, imports: TensorFlowImport) -> None:
        self._loader = loader
        self._imports = imports

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        created: Optional[ModuleType] = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module looks as if its own loader had found it.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._imports.load(self._loader, module)
