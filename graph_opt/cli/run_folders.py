"""Folders of their own for several runs of a script, so that none finds what another has written.

The working directory of a run is a new folder with a link to each entry of the script's own, which
the run replaces with a copy before it writes to it (`own_copies`). Python code is copied, since it
may look beside itself for where to write; so are folders with checkpoints or event files, and empty
ones, which are what scripts train into, and such folders that the script's arguments name. A path
in arguments that does not exist yet is replaced with one in the run's own folder.
"""

from __future__ import annotations

import glob
import os
import shutil
from typing import Dict, List, Sequence

_OF_TRAINING = ("checkpoint", "graph.pbtxt")
_EVENTS = "events.out.tfevents"
_MOST_DEPTH = 3
_MOST_ENTRIES = 5000
_MOST_MODULES = 5000
_NO_PATHS = "*?[]{},"


class RunFolder:
    """The folder of one run.

    Args:
      folder: Where it is made; must not exist.
      script_folder: The working directory that the script would have.

    Attributes:
      work: The run's working directory.
      records: Where its record goes.
      logs: Where the tasks of a cluster write their logs.
      replaced: Arguments that were replaced, and what with.
    """

    def __init__(self, folder: str, script_folder: str) -> None:
        self.work = os.path.join(folder, "work")
        self.records = os.path.join(folder, "records")
        self.logs = os.path.join(folder, "logs")
        self.replaced: Dict[str, str] = {}
        self._folder = folder
        self._script_folder = os.path.abspath(script_folder)
        os.makedirs(self.work)
        os.makedirs(self.records)
        self._modules_left = _MOST_MODULES
        self._fill(self.work, self._script_folder)

    def arguments(self, given: Sequence[str]) -> List[str]:
        """The script's arguments for this run."""
        return [self._argument(one) for one in given]

    def within(self, path: str) -> str:
        """A path below the script's working directory as one below the run's."""
        relative = os.path.relpath(os.path.abspath(path), self._script_folder)
        if relative.startswith(os.pardir):
            return os.path.abspath(path)
        return os.path.join(self.work, relative)

    def owns(self, path: str) -> bool:
        """Whether a path that this run uses leads to its own folder."""
        whole = os.path.realpath(os.path.join(self.work, path))
        return os.path.commonpath([whole, os.path.realpath(self._folder)]) == os.path.realpath(
            self._folder
        )

    def _fill(self, folder: str, source: str) -> None:
        for name in os.listdir(source):
            self._add(os.path.join(folder, name), os.path.join(source, name))

    def _add(self, own: str, source: str) -> None:
        if is_trained_into(source) or os.path.basename(source) == "__pycache__":
            shutil.copytree(source, own, symlinks=True)
        elif source.endswith(".py") and os.path.isfile(source) and self._modules_left > 0:
            self._modules_left -= 1
            shutil.copy2(source, own)
        elif glob.glob(os.path.join(glob.escape(source), "*.py")) and not os.path.islink(source):
            os.mkdir(own)
            self._fill(own, source)
        else:
            os.symlink(source, own)

    def _argument(self, given: str) -> str:
        name, separator, value = given.rpartition("=")
        if not given.startswith("-"):
            name, separator, value = "", "", given
        if not self._is_own(value):
            return given
        own = self.replaced.get(value)
        if own is None:
            own = os.path.join(self._folder, "argument_{}".format(len(self.replaced) + 1))
            own = os.path.join(own, os.path.basename(value.rstrip(os.sep)))
            os.makedirs(os.path.dirname(own))
            if os.path.isdir(value):
                shutil.copytree(value, own, symlinks=True)
            self.replaced[value] = own
        return name + separator + own

    def _is_own(self, value: str) -> bool:
        """Whether an argument is a path outside of the working directory that runs write to."""
        if not os.path.isabs(value) or set(_NO_PATHS).intersection(value):
            return False
        if os.path.isdir(value):
            return is_trained_into(value)
        parent = os.path.dirname(value.rstrip(os.sep))
        exists = os.path.exists(value) or glob.glob(glob.escape(value) + "*")
        return not exists and parent != os.sep and os.path.isdir(parent)


def is_trained_into(folder: str) -> bool:
    """Whether a folder is empty, or has checkpoints or event files."""
    if not os.path.isdir(folder):
        return False
    seen = 0
    for place, folders, names in os.walk(folder):
        if any(name in _OF_TRAINING or name.startswith(_EVENTS) for name in names):
            return True
        seen += len(names) + len(folders)
        if place.count(os.sep) - folder.count(os.sep) >= _MOST_DEPTH or seen > _MOST_ENTRIES:
            folders[:] = []
    return seen == 0
