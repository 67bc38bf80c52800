"""Continues `graph-opt run` in Python processes that a script under it starts.

Their PYTHONPATH begins with the folder of this file, and Python imports a `sitecustomize` when it
starts. Another `sitecustomize`, which this file hides, is imported as well.
"""

import importlib.machinery
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class _Notice:
    """Says once, when TensorFlow is imported, that this process is not optimized."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """Finds nothing."""
        if name == "tensorflow":
            sys.meta_path.remove(self)
            text = "graph-opt run: this process, started by the script, is not optimized: {}"
            print(text.format(self._error), file=sys.stderr)


def _import_hidden() -> None:
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _continue_run() -> None:
    try:
        from graph_opt.cli.started_processes import continue_run
    except ImportError as error:  # A Python without graph_opt.
        sys.meta_path.insert(0, _Notice(error))
        return
    continue_run()


sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != _FOLDER]
_import_hidden()
_continue_run()
