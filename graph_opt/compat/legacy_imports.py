"""`import tensorflow` as TensorFlow 1 code means it, in a process that runs such code."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any, Optional, Sequence

import tensorflow as stock

from graph_opt.compat import tf

_NAME = "tensorflow"


def present_version_1(own_package: str = "") -> None:
    """Makes `import tensorflow` give `tensorflow.compat.v1`, with TF2 behaviour switched off.

    `from tensorflow.python...`, `tensorflow.core...` and `tensorflow.compat.v1` keep working and
    lead to the same objects. Libraries installed beside TensorFlow were written for the version
    that is installed: while one of their modules is imported, `tensorflow` is what it was. Lasts
    for the rest of the process.

    Args:
      own_package: Top-level package that counts as TensorFlow 1 code although it is installed
        beside TensorFlow; "" for none.

    Example:
      >>> present_version_1()
      >>> import tensorflow as tf
      >>> tf.Session
      <class 'tensorflow.python.client.session.Session'>
    """
    _disable_version_2()
    if sys.modules[_NAME] is tf:
        return
    _complete(tf)
    sys.meta_path.insert(0, _LibraryFinder(own_package))
    sys.modules[_NAME] = tf


def _disable_version_2() -> None:
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.ERROR)  # It warns of what the script takes for granted.
    try:
        tf.disable_v2_behavior()
    finally:
        tf.logging.set_verbosity(verbosity)


def _complete(module: Any) -> None:
    """Gives the version 1 module what only TensorFlow's own top module has."""
    module.compat = stock.compat  # tf.compat.v1 has another module of that name within.
    for path in stock.__path__:
        if path not in module.__path__:
            module.__path__.append(path)
    prefix = _NAME + "."
    for name, child in list(sys.modules.items()):
        short = name[len(prefix) :]
        if name.startswith(prefix) and "." not in short and not hasattr(module, short):
            setattr(module, short, child)  # `import tensorflow.python.x as y` looks here.


class _LibraryFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of installed libraries, to be run with the stock `tensorflow`."""

    def __init__(self, own_package: str) -> None:
        self._own = own_package
        self._folder = os.path.join(os.path.dirname(os.path.dirname(stock.__file__)), "")

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """As `importlib.machinery.PathFinder`, for those libraries only."""
        if fullname.partition(".")[0] in (_NAME, self._own):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None or not spec.origin:
            return None
        if not spec.origin.startswith(self._folder):
            return None
        spec.loader = _LibraryLoader(spec.loader)
        return spec


class _LibraryLoader(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        created: Optional[ModuleType] = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module is as if its own loader had found it.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        seen = sys.modules[_NAME]
        sys.modules[_NAME] = stock
        try:
            self._loader.exec_module(module)
        finally:
            sys.modules[_NAME] = seen
