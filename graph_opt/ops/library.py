"""Loads the compiled op library once, on first use.

Generating the Python functions of its ops takes far longer than loading it, and those who only
read, rewrite or import graphs need none: they call `register_ops`.

A library works with the releases of TensorFlow that it was built for, such as 2.15.0 and 2.15.1,
and has their number in its name: a checkout or a wheel may have several.
"""

from __future__ import annotations

import functools
import os
import threading
from types import ModuleType
from typing import Any, Callable, Sequence, TypeVar

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import KNOWS_LOADED_OPS
from graph_opt.compat.version_names import release_numbers
from graph_opt.launch import op_libraries
from graph_opt.launch.other_checkouts import REBUILD, missing_library

_OTHER_RELEASES = (
    "graph_opt's compiled ops are built for TensorFlow {}, and this is TensorFlow {}, for which a "
    "wheel's version ends in +tf{} ({{}})"
)
_RELEASE = "{}.{}".format(*release_numbers())
LIBRARY_PATH = os.path.join(op_libraries.FOLDER, op_libraries.NAME.format(_RELEASE))

Loaded = TypeVar("Loaded")

_lock = threading.RLock()


def register_ops() -> None:
    """Registers graph_opt's ops with TensorFlow.

    A GraphDef that contains the ops can be imported only afterwards. Repeated calls cost nothing.

    Raises:
      ImportError: The library is missing, or was built for another TensorFlow.

    Example:
      >>> register_ops()
      >>> tf.import_graph_def(rewritten, name="")
    """
    with _lock:
        _register(LIBRARY_PATH)


def load_library() -> ModuleType:
    """Registers graph_opt's ops with TensorFlow, and makes functions that add them to a graph.

    Repeated calls cost nothing.

    Returns:
      The module of generated Python functions, one for each op (`tensor_buffer_put`, ...).

    Raises:
      ImportError: The library is missing, or was built for another TensorFlow.

    Example:
      >>> graph_opt.load_op_library()
      >>> tf.import_graph_def(graph_def, name="")
    """
    with _lock:
        return _functions(LIBRARY_PATH)


def serving_library() -> str:
    """Path of the library with the ops of fused lookups alone, which processes that serve load.

    Raises:
      ImportError: It is missing, or there is one for another TensorFlow only.
    """
    path = os.path.join(op_libraries.FOLDER, op_libraries.SERVING_NAME.format(_RELEASE))
    if not os.path.exists(path):
        raise ImportError(missing_library(_what_is_missing(os.path.dirname(path)), path))
    return path


def op_for(tables: Sequence[tf.Tensor], name: str) -> Callable[..., Any]:
    """The generated function of an op that has a form for references and one for handles.

    Args:
      tables: The variables that it will get: resource handles, or else references or values.
      name: The function of the form for references.

    Raises:
      ImportError: As `load_library`.

    Example:
      >>> op_for(handles, "group_embedding_apply").__name__
      'resource_group_embedding_apply'
    """
    prefix = "resource_" if tables[0].dtype == tf.resource else ""
    function: Callable[..., Any] = getattr(load_library(), prefix + name)
    return function


@functools.lru_cache(maxsize=None)
def _register(path: str) -> None:
    if KNOWS_LOADED_OPS:
        _load(path, tf.load_library)
    else:
        _functions(path)


@functools.lru_cache(maxsize=None)
def _functions(path: str) -> ModuleType:
    module: ModuleType = _load(path, tf.load_op_library)
    return module


def _load(path: str, load: Callable[[str], Loaded]) -> Loaded:
    if not os.path.exists(path):
        raise ImportError(missing_library(_what_is_missing(os.path.dirname(path)), path))
    try:
        return load(path)
    except (tf.errors.OpError, OSError) as error:
        raise ImportError(
            "graph_opt's compiled ops ({}) do not load into TensorFlow {}, perhaps they were built "
            "for another one: {}. {}".format(path, tf.VERSION, REBUILD, error)
        ) from error


def _what_is_missing(folder: str) -> str:
    releases = op_libraries.built_releases(folder)
    if not releases:
        return "graph_opt's compiled ops are missing ({})"
    return _OTHER_RELEASES.format(" and ".join(releases), tf.VERSION, _RELEASE)
