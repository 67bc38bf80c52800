"""This rank's rows of a checkpoint that another rank has restored."""

from __future__ import annotations

import zlib
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.sharding.checkpoint_rows import CheckpointRows
from graph_opt.sharding.saver_nodes import SavedVariable
from graph_opt.sharding.session_rows import SessionRows
from graph_opt.sharding.whole_tables import check_tables, read_tables, whole_tables

Ask = Callable[[Dict[str, Any]], Tuple[Dict[str, Any], List[bytes]]]

TENSORS, FILE = "tensors", "file"


class Restored(NamedTuple):
    """What a session has restored.

    Attributes:
      rank: Of the session.
      prefix: The checkpoint, as an absolute path.
      checksum: Of its index.
      saved: Tables and slots.
    """

    rank: int
    prefix: str
    checksum: int
    saved: List[SavedVariable]

    def plain(self) -> List[Any]:
        """As JSON."""
        return [self.rank, self.prefix, self.checksum, [list(one) for one in self.saved]]


def restored_of(plain: List[Any]) -> Restored:
    """The opposite of `Restored.plain`."""
    rank, prefix, checksum, saved = plain
    return Restored(rank, prefix, checksum, [SavedVariable(*one) for one in saved])


def index_checksum(prefix: str) -> int:
    """Tells checkpoints apart; 0 if there is none.

    Under a name that one rank has read, another may see another file, or none.
    """
    path = prefix + ".index"
    if not tf.gfile.Exists(path):
        return 0
    with tf.gfile.GFile(path, "rb") as opened:
        return zlib.crc32(opened.read()) or 1


def restore_like(restored: Restored, rows: SessionRows, ask: Ask) -> None:
    """Reads this rank's rows of what another rank has restored.

    Args:
      restored: By that rank.
      rows: Of this rank's session.
      ask: Asks that rank, for a checkpoint that this one does not see.
    """
    parts = rows.variables.parts
    saved = [one for one in restored.saved if one.variable in parts]
    tables = whole_tables(saved, parts)
    checkpoint = checkpoint_of(restored, ask)
    check_tables(tables, checkpoint)
    read_tables(tables, checkpoint, rows.steps)


def checkpoint_of(restored: Restored, ask: Ask) -> Any:
    """Where to read from: the file, or the rank that sees it."""
    if index_checksum(restored.prefix) == restored.checksum:
        return CheckpointRows(restored.prefix)
    return _CheckpointElsewhere(restored.prefix, ask)


def answer_for_file(request: Dict[str, Any]) -> Tuple[Dict[str, Any], List[Any]]:
    """What `checkpoint_of` asks for."""
    checkpoint = CheckpointRows(request["prefix"])
    if request["ask"] == TENSORS:
        found = {
            name: [list(one.shape), one.dtype.name] for name, one in checkpoint.tensors.items()
        }
        return {TENSORS: found}, []
    return {}, [checkpoint.rows(request["name"], request["first"], request["count"])]


class _TensorElsewhere(NamedTuple):
    shape: Tuple[int, ...]
    dtype: Any


class _CheckpointElsewhere:
    """As `CheckpointRows`, on another rank."""

    def __init__(self, prefix: str, ask: Ask) -> None:
        self.prefix = prefix
        self._ask = ask
        head, _ = ask({"ask": TENSORS, "prefix": prefix})
        self.tensors = {
            name: _TensorElsewhere(tuple(shape), tf.as_dtype(dtype))
            for name, (shape, dtype) in head[TENSORS].items()
        }

    def rows(self, name: str, first: int, count: int) -> np.ndarray:
        """See `CheckpointRows`."""
        request = {"ask": FILE, "prefix": self.prefix, "name": name, "first": first}
        _, parts = self._ask(dict(request, count=count))
        tensor = self.tensors[name]
        rows = np.frombuffer(parts[0], tensor.dtype.as_numpy_dtype)
        return rows.reshape((count,) + tensor.shape[1:])
