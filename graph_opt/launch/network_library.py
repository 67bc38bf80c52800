"""Loads the compiled network proxy, which needs no TensorFlow."""

from __future__ import annotations

import ctypes
import functools
import os

from graph_opt.launch.other_checkouts import REBUILD, missing_library

LIBRARY_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libgraph_opt_network.so")

_ARGUMENTS = {  # as in ops_src/network/proxy_library.h
    "new": (ctypes.c_void_p, [ctypes.c_double, ctypes.c_double, ctypes.c_int]),
    "add_target": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]),
    "run": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]),
    "set_delay": (None, [ctypes.c_void_p, ctypes.c_double]),
    "close": (None, [ctypes.c_void_p]),
    "calls": (ctypes.c_uint64, [ctypes.c_void_p]),
    "bytes": (ctypes.c_uint64, [ctypes.c_void_p]),
    "delete": (None, [ctypes.c_void_p]),
}


@functools.lru_cache(maxsize=None)
def load_library(path: str = LIBRARY_PATH) -> ctypes.CDLL:
    """The library, whose functions are those of `ops_src/network/proxy_library.h`.

    Raises:
      ImportError: It is missing, or does not load.

    Example:
      >>> proxy = load_library().graph_opt_proxy_new(0.001, 0.0, 0)
    """
    if not os.path.exists(path):
        raise ImportError(
            missing_library("graph_opt's compiled network proxy is missing ({})", path)
        )
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            "graph_opt's compiled network proxy ({}) does not load. {}. {}".format(
                path, REBUILD, error
            )
        ) from error
    for name, (result, arguments) in _ARGUMENTS.items():
        function = getattr(library, "graph_opt_proxy_" + name)
        function.restype, function.argtypes = result, arguments
    return library
