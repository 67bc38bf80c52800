"""Tells what files TensorFlow's Python API is about to write, create, rename or delete."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Tuple

from graph_opt.compat import tf

_PATHS: Dict[str, Tuple[Tuple[int, ...], str]] = {
    "CreateDir": ((0,), "entry"),
    "RecursivelyCreateDir": ((0,), "contents"),
    "DeleteFile": ((0,), "entry"),
    "DeleteRecursively": ((0,), "tree"),
    "RenameFile": ((0, 1), "entry"),
    "CopyFile": ((1,), "contents"),
    "WritableFile": ((0,), "contents"),
}


def tell_of_writes(tell: Dict[str, Callable[[str], Any]]) -> None:
    """From this call on, functions are told of paths before TensorFlow changes them.

    `tf.io.gfile`, savers of Python and writers of summaries are all made of a few compiled
    functions, which are replaced; ops that write files are not.

    Args:
      tell: Called with a path of which `entry` (of its folder), `contents` or the whole `tree` is
        about to change.
    """
    module = _compiled_functions()
    for name, (places, kind) in _PATHS.items():
        made = "Create" + name  # WritableFile of TensorFlow 1, which has the class as well
        called = made if hasattr(module, made) else name
        setattr(module, called, _told(getattr(module, called), places, tell[kind]))


def _compiled_functions() -> Any:
    from tensorflow.python.lib.io import file_io

    found = getattr(file_io, "_pywrap_file_io", None)
    # TensorFlow 1 has all its compiled functions in one module, which it imports by two names.
    return file_io.pywrap_tensorflow if found is None else found


def _told(compiled: Any, places: Tuple[int, ...], tell: Callable[[str], Any]) -> Any:
    @functools.wraps(compiled, updated=())
    def call(*arguments: Any) -> Any:
        for place in places:
            tell(tf.compat.as_str_any(arguments[place]))
        return compiled(*arguments)

    return call
