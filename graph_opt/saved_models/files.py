"""The files of a SavedModel; needs no TensorFlow.

SERVED/saved_model.pb         graphs; each has tags
       variables/             what their savers restore
       assets/                what their nodes read besides
       assets.extra/          what is not TensorFlow's
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Optional

VARIABLES = os.path.join("variables", "variables")
"""Prefix of the checkpoint."""
ASSETS = "assets"
EXTRA = "assets.extra"

_FILE = "saved_model.pb"
_FILES = (_FILE, "saved_model.pbtxt")
_OF_GRAPHS = (*_FILES, "fingerprint.pb")


def graphs_file(folder: str) -> Optional[str]:
    """The file with the graphs; None if a path is not the folder of a SavedModel."""
    files = (os.path.join(folder, name) for name in _FILES)
    return next(filter(os.path.exists, files), None)


def folder_of(path: str) -> str:
    """The folder of a SavedModel, of which the file with the graphs may be given; else the path.

    Example:
      >>> folder_of("export/1/saved_model.pb")
      'export/1'
    """
    return os.path.dirname(path) or "." if os.path.basename(path) in _FILES else path


def replace_graphs(folder: str, data: bytes) -> None:
    """Writes the file with the graphs in place of the one that is there."""
    remove_graphs(folder)
    with open(os.path.join(folder, _FILE), "wb") as file:
        file.write(data)


def remove_graphs(folder: str) -> None:
    """Removes the file with the graphs, and what tells it from others."""
    for name in _OF_GRAPHS:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, name))


def copy_all_but_graphs(model: str, folder: str) -> None:
    """Copies the files of a SavedModel except for its graphs.

    Folders may be written into, whatever those of the model allow.

    Raises:
      OSError: A file cannot be read or written.
    """
    for parent, folders, names in os.walk(model, onerror=_fail, followlinks=True):
        within = os.path.relpath(parent, model)
        for name in folders:
            os.makedirs(os.path.join(folder, within, name))
        for name in names:
            if within != os.curdir or name not in _OF_GRAPHS:
                copy_file(os.path.join(parent, name), os.path.join(folder, within, name))


def _fail(error: OSError) -> None:
    """What cannot be listed would otherwise count as empty."""
    raise error


def copy_file(source: str, target: str) -> None:
    """Copies a file in place of one that may be there; makes its folder.

    Raises:
      OSError: It cannot be read or written.
    """
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.remove(target)  # It may be one that cannot be written.
    shutil.copy(source, target)
