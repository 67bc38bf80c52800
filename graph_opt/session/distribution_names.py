"""What scripts are told that ask `pkg_resources` which TensorFlow is installed.

Scripts of DeepRec's model zoo stop unless `--tf` is given or 'deeprec' is in

    pkg_resources.get_distribution("Tensorflow").version

While DeepRec's names are there, it is; the rest of the version is TensorFlow's. Only this spelling
of the name is answered: libraries that check their dependencies ask for `tensorflow`. Newer
releases of setuptools have no `pkg_resources`; then it has nothing but this answer.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, NamedTuple, Optional, Sequence

from graph_opt.compat.version_names import release_numbers

_MODULE = "pkg_resources"
_ASKED = "Tensorflow"
_SUFFIX = "+deeprec"
_FUNCTION = "get_distribution"
_MISSING = (
    "graph_opt: pkg_resources is not installed, and stands here for TensorFlow's version alone: "
    "pip install 'setuptools<81' to ask for {!r}"
)


class Distribution(NamedTuple):
    """As much of `pkg_resources.Distribution` as tells a version."""

    project_name: str
    key: str
    version: str


class DistributionNames(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Puts the answer into `pkg_resources`, when that is imported."""

    def __init__(self) -> None:
        self._loader: Any = None
        self._before: Any = None

    def put(self) -> None:
        """Answers from now on."""
        if self in sys.meta_path:
            return
        sys.meta_path.insert(0, self)
        if _MODULE in sys.modules:
            self._replace_in(sys.modules[_MODULE])

    def take_back(self) -> None:
        """Undoes `put`."""
        if self not in sys.meta_path:
            return
        sys.meta_path.remove(self)
        module = sys.modules.get(_MODULE)
        if module is not None and self._before is not None:
            setattr(module, _FUNCTION, self._before)
        elif isinstance(module, _Stand):
            del sys.modules[_MODULE]
        self._before = None

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Finds `pkg_resources`, where there is one or not; see `importlib.abc.MetaPathFinder`."""
        if fullname != _MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None:
            return importlib.machinery.ModuleSpec(fullname, self)
        self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        """The module's own, or one that has nothing but the answer."""
        if self._loader is None:
            return _Stand(_MODULE, "Stands for `pkg_resources`, which is not installed.")
        created: Optional[ModuleType] = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module's own code, if it has any, and puts the answer into it."""
        if self._loader is not None:
            loader, self._loader = self._loader, None
            loader.exec_module(module)
        self._replace_in(module)

    def _replace_in(self, module: Any) -> None:
        self._before = before = getattr(module, _FUNCTION, None)

        def get_distribution(dist: Any) -> Any:
            if dist == _ASKED:
                release = ".".join(map(str, release_numbers()))
                return Distribution(_ASKED, _ASKED.lower(), release + _SUFFIX)
            if before is None:
                raise ModuleNotFoundError(_MISSING.format(dist), name=_MODULE)
            return before(dist)

        setattr(module, _FUNCTION, get_distribution)


class _Stand(ModuleType):
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_MISSING.format(name))


distribution_names = DistributionNames()
