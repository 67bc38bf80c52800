"""Files of shares: written where the rank that saves will join them, or brought there in blocks."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.sharding.rank_shares import RankShare, share_prefix
from graph_opt.table_files.row_blocks import block_bytes

LENT, LENT_ENDS = "lent", "lent ends"
_FOLDER, _FILES = "folder", "files"

Write = Callable[[RankShare, str], Any]
Ask = Callable[[Dict[str, Any]], Tuple[Dict[str, Any], List[bytes]]]


class LentFiles:
    """Files that another rank reads, as it does not see the folder where this one writes them."""

    def __init__(self) -> None:
        self._folders: Dict[str, Any] = {}

    def write(self, shares: Sequence[RankShare], rank: int, folder: str, write: Write) -> Any:
        """Writes shares of a rank.

        Args:
          shares: What to write.
          rank: The rank.
          folder: Of another rank, which has made it; it has a name that no other folder has.
          write: Writes a share as the checkpoint of a prefix.

        Returns:
          What to answer to that rank, for `bring_files`.
        """
        if tf.gfile.IsDirectory(folder):
            write_shares(shares, rank, folder, write)
            return {}
        lent = tempfile.TemporaryDirectory(prefix="graph_opt_shares_")
        write_shares(shares, rank, lent.name, write)
        self._folders[lent.name] = lent
        sizes = {name: os.path.getsize(_path(lent.name, name)) for name in os.listdir(lent.name)}
        return {_FOLDER: lent.name, _FILES: sizes}

    def answer(self, request: Dict[str, Any]) -> Tuple[Dict[str, Any], List[Any]]:
        """What `bring_files` asks for."""
        folder = request[_FOLDER]
        if request["ask"] == LENT_ENDS:
            self._folders.pop(folder).cleanup()
            return {}, []
        lent: str = self._folders[folder].name
        with open(_path(lent, request["file"]), "rb") as opened:
            opened.seek(request["first"])
            data = opened.read(request["count"])
        return {}, [np.frombuffer(data, np.uint8)]


def write_shares(shares: Sequence[RankShare], rank: int, folder: str, write: Write) -> None:
    """Writes shares of a rank into a folder, where `share_prefix` says."""
    for number, share in enumerate(shares):
        write(share, share_prefix(folder, rank, number))


def bring_files(answered: Dict[str, Any], folder: str, ask: Ask) -> None:
    """Copies files that a rank has lent into a folder; does nothing if they are there already.

    Args:
      answered: By that rank.
      folder: Where they are to be.
      ask: Asks it.
    """
    if _FOLDER not in answered:
        return
    for name, size in sorted(answered[_FILES].items()):
        with tf.gfile.GFile(os.path.join(folder, name), "wb") as copied:
            copied.write(b"")  # makes the file
            for first in range(0, size, block_bytes()):
                request = {"ask": LENT, _FOLDER: answered[_FOLDER], "file": name, "first": first}
                _, parts = ask(dict(request, count=min(block_bytes(), size - first)))
                copied.write(parts[0])
    ask({"ask": LENT_ENDS, _FOLDER: answered[_FOLDER]})


def _path(folder: str, name: str) -> str:
    return os.path.join(folder, os.path.basename(name))
