"""This rank's rows of a checkpoint that another rank has restored."""

from __future__ import annotations

import contextlib
import os
import tempfile
import zlib
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Sequence,
    Set,
    Tuple,
)

import numpy as np

from graph_opt.compat import tf
from graph_opt.sharding.rank_shares import RankShare, share_of_plain
from graph_opt.sharding.saver_nodes import SavedVariable
from graph_opt.sharding.session_rows import SessionRows
from graph_opt.sharding.whole_tables import check_tables, clear_tables, read_tables, whole_tables
from graph_opt.table_files.checkpoint_rows import CheckpointRows
from graph_opt.table_files.checkpoint_slices import (
    CheckpointParts,
    file_steps,
    merge_parts,
    slices_of,
)

Ask = Callable[[Dict[str, Any]], Tuple[Dict[str, Any], List[bytes]]]

TENSORS, FILE = "tensors", "file"


class Restored(NamedTuple):
    """What a session has restored.

    Attributes:
      rank: Of the session.
      prefix: The checkpoint, as an absolute path.
      checksum: Of its index.
      saved: Tables and slots.
      shares: Tables and slots of which each rank has a share.
    """

    rank: int
    prefix: str
    checksum: int
    saved: List[SavedVariable]
    shares: List[RankShare]

    @property
    def variables(self) -> Set[str]:
        """Names of the ops of all variables."""
        return {one.variable for one in self.saved}.union(*(one.variables for one in self.shares))

    def without(self, variables: AbstractSet[str]) -> Restored:
        """What is left if these need not be restored any more."""
        return self._replace(
            saved=[one for one in self.saved if one.variable not in variables],
            shares=[one for one in self.shares if one.variables - variables],
        )

    def plain(self) -> List[Any]:
        """As JSON."""
        saved, shares = [list(one) for one in self.saved], [one.plain() for one in self.shares]
        return [self.rank, self.prefix, self.checksum, saved, shares]


def restored_of(plain: List[Any]) -> Restored:
    """The opposite of `Restored.plain`."""
    rank, prefix, checksum, saved, shares = plain
    return Restored(
        rank,
        prefix,
        checksum,
        [SavedVariable(*one) for one in saved],
        [share_of_plain(one) for one in shares],
    )


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
    parts = rows.variables
    saved = [one for one in restored.saved if one.variable in parts]
    tables = whole_tables(saved, parts)
    checkpoint = checkpoint_of(restored, ask)
    check_tables(tables, checkpoint)
    clear_tables(tables, rows.steps)
    read_tables(tables, checkpoint, rows.steps)
    if restored.shares:
        with _seen_here(checkpoint, restored.shares) as prefix:
            for share in restored.shares:
                rows.restore_share(share, prefix)


@contextlib.contextmanager
def _seen_here(checkpoint: Any, shares: Sequence[RankShare]) -> Iterator[str]:
    """The prefix of a checkpoint with shares, which is brought here if this rank does not see it.

    Of the tensors, those are brought that may be of these tables.
    """
    if isinstance(checkpoint, CheckpointRows):
        yield checkpoint.prefix
        return
    names = {share.name or share.table for share in shares}
    with tempfile.TemporaryDirectory(prefix="graph_opt_shares_") as folder, file_steps() as steps:
        parts = CheckpointParts(folder, steps)
        for name, tensor in sorted(checkpoint.tensors.items()):
            if tensor.shape and any(one in name for one in names):
                for block in slices_of(checkpoint, name):
                    parts.write(block)
        prefix = os.path.join(folder, "model")
        merge_parts(parts.prefixes, prefix, steps)
        yield prefix


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

    def check(self, name: str) -> None:
        """See `CheckpointRows`; the other rank has done it."""

    def rows(self, name: str, first: int, count: int) -> np.ndarray:
        """See `CheckpointRows`."""
        request = {"ask": FILE, "prefix": self.prefix, "name": name, "first": first}
        _, parts = self._ask(dict(request, count=count))
        tensor = self.tensors[name]
        rows = np.frombuffer(parts[0], tensor.dtype.as_numpy_dtype)
        return rows.reshape((count,) + tensor.shape[1:])
