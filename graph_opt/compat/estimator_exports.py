"""The argument that exports of DeepRec's estimators have besides TensorFlow's.

Estimators are left to be imported by scripts that use them: the import makes TensorFlow's hooks
warn that they are deprecated, which they do not do without it.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Callable, Optional, Sequence

from tensorflow.python.training import monitored_session
from tensorflow.python.training import saver as saver_module

_MODULE = "tensorflow_estimator.python.estimator.estimator"
_METHOD = "export_saved_model"


class EstimatorExports(importlib.abc.MetaPathFinder):
    """Adds `Estimator.export_saved_model(save_incr_model=)` once estimators have been imported.

    Args:
      make_incremental: Called with a saver that is to be incremental, once it is built.
    """

    def __init__(self, make_incremental: Callable[[Any], Any]) -> None:
        self._make_incremental = make_incremental
        self._stock: Any = None

    def put(self) -> None:
        """Adds the argument, now or when estimators are imported."""
        if _MODULE in sys.modules:
            self.replace(sys.modules[_MODULE])
        else:
            sys.meta_path.insert(0, self)

    def take_back(self) -> None:
        """Undoes `put`."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if self._stock is not None:
            setattr(sys.modules[_MODULE].Estimator, _METHOD, self._stock)
            self._stock = None

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """What others find, with a loader that adds the argument to the module."""
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def replace(self, module: ModuleType) -> None:
        """Adds the argument to the estimators of a module."""
        owner = module.Estimator
        self._stock = getattr(owner, _METHOD)
        setattr(owner, _METHOD, _export(self._stock, self._make_incremental))


class _Loader(importlib.abc.Loader):
    def __init__(self, stock: Any, exports: EstimatorExports) -> None:
        self._stock = stock
        self._exports = exports

    def create_module(self, spec: Any) -> Any:
        return self._stock.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._stock.exec_module(module)
        self._exports.replace(module)


def _export(stock: Any, make_incremental: Callable[[Any], Any]) -> Any:
    @functools.wraps(stock)
    def export_saved_model(
        self: Any, *arguments: Any, save_incr_model: bool = False, **named: Any
    ) -> Any:
        if not save_incr_model:
            return stock(self, *arguments, **named)
        call_model_fn = self._call_model_fn

        def call_and_make(*given: Any, **by_name: Any) -> Any:
            spec = call_model_fn(*given, **by_name)
            saver = spec.scaffold.saver or saver_module.Saver(sharded=True)
            make_incremental(saver)
            scaffold = monitored_session.Scaffold(saver=saver, copy_from_scaffold=spec.scaffold)
            return spec._replace(scaffold=scaffold)

        self._call_model_fn = call_and_make
        try:
            return stock(self, *arguments, **named)
        finally:
            del self._call_model_fn

    return export_saved_model
