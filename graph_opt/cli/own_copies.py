"""What a run of `graph-opt check` writes to becomes its own first, so that the user's files stay.

A run works in a folder of links. A link to a file that is opened for writing is replaced with a
copy of the file, and one to a folder in which something changes with a folder of links.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from typing import Any, Callable, Dict, Optional, Tuple

_VARIABLE = "GRAPH_OPT_OWN_FOLDER"
_WRITES = os.O_WRONLY | os.O_RDWR
# Audit events of calls that change entries of folders, and of those that change what a path leads
# to: the places of these paths among the arguments.
_ENTRIES = {
    "os.mkdir": (0,), "os.rmdir": (0,), "os.remove": (0,), "os.rename": (0, 1), "os.symlink": (1,),
    "os.link": (1,),
}  # fmt: skip
_CONTENTS = {
    "open": (0,), "os.truncate": (0,), "os.chmod": (0,), "os.utime": (0,), "shutil.rmtree": (0,),
}  # fmt: skip


class OwnCopies:
    """Makes own copies of what links in a folder lead to.

    Args:
      folder: The folder.

    Example:
      >>> copies = OwnCopies("/tmp/run/work")
      >>> copies.take("data/rows.csv")  # "data" was a link to a folder of the user's.
    """

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(folder)
        self._lock = threading.RLock()
        self._calling = threading.local()

    def take(self, path: str) -> None:
        """Replaces each link on the way to a path, and the last, with what it leads to."""
        relative = os.path.relpath(os.path.abspath(path), self._folder)
        if relative.startswith(os.pardir) or getattr(self._calling, "is_ours", False):
            return
        self._calling.is_ours = True
        try:
            with self._lock:
                place = self._folder
                for part in relative.split(os.sep):
                    place = os.path.join(place, part)
                    _replace_link(place)
        finally:
            self._calling.is_ours = False

    def take_tree(self, path: str) -> None:
        """The same, and for all that is below it."""
        self.take(path)
        for place, folders, _ in os.walk(path):
            for name in folders:
                self.take(os.path.join(place, name))

    def take_folder_of(self, path: str) -> None:
        """The same for the folder that a path is in."""
        self.take(os.path.dirname(os.path.abspath(path)))

    def on_event(self, event: str, arguments: Tuple[Any, ...]) -> None:
        """Takes what a call of Python is about to change, as `sys.addaudithook` tells of it."""
        if event not in _CONTENTS and event not in _ENTRIES:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITES):
            return
        take = self.take if event in _CONTENTS else self.take_folder_of
        for place in _CONTENTS.get(event, ()) or _ENTRIES[event]:
            path = arguments[place]
            if isinstance(path, (str, bytes, os.PathLike)):  # It may be a file descriptor.
                take(os.fsdecode(path))

    def watch_tensorflow(self) -> None:
        """Takes what TensorFlow's own functions for files are about to change; loads TensorFlow."""
        from graph_opt.compat.file_writes import tell_of_writes

        tell_of_writes(
            {"entry": self.take_folder_of, "contents": self.take, "tree": self.take_tree}
        )


def environment_of(folder: str) -> Dict[str, str]:
    """What tells a process, and those that it starts, in which folder links are replaced."""
    return {_VARIABLE: folder}


def own_copies() -> Optional[OwnCopies]:
    """Has this process own what it writes to, if it was told a folder; Python 3.7 cannot."""
    folder = os.environ.get(_VARIABLE)
    if not folder:
        return None
    copies = OwnCopies(folder)
    watch: Optional[Callable[[Any], None]] = getattr(sys, "addaudithook", None)
    if watch is not None:
        watch(copies.on_event)
    return copies


def link_entries(source: str, folder: str) -> None:
    """Links what is in a folder into another one."""
    for name in os.listdir(source):
        os.symlink(os.path.join(source, name), os.path.join(folder, name))


def _replace_link(place: str) -> None:
    if not os.path.islink(place):
        return
    target = os.path.realpath(place)
    if os.path.isdir(target):
        os.unlink(place)
        os.mkdir(place)
        link_entries(target, place)
    elif os.path.isfile(target):
        os.unlink(place)
        shutil.copy2(target, place)
