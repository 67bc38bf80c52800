"""The files of a SavedModel; needs no TensorFlow.

SERVED/saved_model.pb         graphs; each has tags
       variables/             what their savers restore
       assets/                what their nodes read besides
       assets.extra/          what is not TensorFlow's
"""

from __future__ import annotations

import contextlib
import os
from typing import Optional

VARIABLES = os.path.join("variables", "variables")
"""Prefix of the checkpoint."""
ASSETS = "assets"
EXTRA = "assets.extra"

_FILE = "saved_model.pb"
_FILES = (_FILE, "saved_model.pbtxt")
_FINGERPRINT = "fingerprint.pb"


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
    for name in (*_FILES, _FINGERPRINT):
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, name))
    with open(os.path.join(folder, _FILE), "wb") as file:
        file.write(data)
