"""Writes updates of an export's tables, for servers that go on while they get them.

An update is made of what differs from the export: whole tables, or rows of tables of which few
pages differ. A server maps such a table from the exported file, and writes the rows into pages of
its own.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.reporting.tables import bytes_text, counted, first_of
from graph_opt.saved_models.called_functions import inline_functions
from graph_opt.saved_models.graphs import graphs_of_export
from graph_opt.serving.mapped_variables import Stored, stored_variables
from graph_opt.serving.table_lists import (
    ASSET,
    NEWEST,
    UPDATES,
    export_list,
    file_name,
    update_numbers,
    write_list,
)
from graph_opt.serving.variable_rows import UpdatedRows
from graph_opt.serving.written_whole import refuse_existing, written_whole
from graph_opt.table_files.checkpoint_format import prefix_of
from graph_opt.table_files.checkpoint_rows import CheckpointRows, tensorflow_errors
from graph_opt.table_files.mapped_files import (
    MappedTable,
    write_mapped_rows,
    write_mapped_table,
)
from graph_opt.table_files.row_blocks import blocks_of

_PAGE = 4096
_MOST_PAGES = 0.25
"""With more that differ, a file that processes share takes less memory than pages of each."""
_NAMED = 5


class TableUpdate(NamedTuple):
    """What was written.

    Attributes:
      folder: Where; servers that run are told this path.
      replaced: Tables that it has whole.
      patched: How many rows it has of others.
      unchanged: Tables that are as exported.
      missing: Tables that no checkpoint has, and that stay as exported.
      num_bytes: Of its files.
      is_start: Whether servers that start from now on start from it.
    """

    folder: str
    replaced: Sequence[str]
    patched: Dict[str, int]
    unchanged: Sequence[str]
    missing: Sequence[str]
    num_bytes: int
    is_start: bool

    def __str__(self) -> str:
        lines = [
            "{}: {} replaced, {} of {} patched, {} as exported; {}".format(
                self.folder,
                counted(len(self.replaced), "table"),
                counted(sum(self.patched.values()), "row"),
                counted(len(self.patched), "table"),
                len(self.unchanged),
                bytes_text(self.num_bytes),
            )
        ]
        if self.missing:
            named = first_of(self.missing, _NAMED)
            lines.append("not in a checkpoint, and so as exported: " + named)
        lines.append("servers that run: send this path to the signature update_tables")
        if self.is_start:
            lines.append("servers that start: start from it")
        return "\n".join(lines)


def update_served(
    served: str,
    checkpoints: Sequence[str],
    output: Optional[str] = None,
    watch: Callable[[int, int], None] = lambda done, of: None,
) -> TableUpdate:
    """Writes an update of the tables of an export, for servers that run and for later ones.

    All variables that the export has in files can be replaced: tables, and what dense layers read.

    Args:
      served: What `export_fused` wrote with `map_tables`.
      checkpoints: Prefixes or folders of checkpoints, in order: a full one, a full one and its
        increment, or increments of the checkpoint that was exported.
      output: Folder to write, which must not exist. By default, the next number in the folder
        `updates` of the export, and servers that start from then on start from it.
      watch: Told after each table how many bytes have been compared, and of how many.

    Returns:
      What was written.

    Raises:
      tf.errors.AlreadyExistsError: There is something at `output`.
      tf.errors.DataLossError: A checkpoint or a file of the export is damaged.
      tf.errors.FailedPreconditionError: Nothing differs from the export. Nothing is written.
      tf.errors.InvalidArgumentError: It is no such export; a checkpoint is of another model.
      tf.errors.NotFoundError: There is no such checkpoint.

    Example:
      >>> print(graph_opt.update_served("served/1", ["model/model.ckpt-2000"]))
      served/1/updates/1: 3 tables replaced, 1024 rows of 23 tables patched, 0 as exported; 2.1 MiB
      servers that run: send this path to the signature update_tables
      servers that start: start from it
    """
    exported = export_list(served)
    is_start = output is None
    if output is None:
        number = (update_numbers(served) or [0])[-1] + 1
        output = os.path.join(served, UPDATES, str(number))
    refuse_existing(output)
    with tensorflow_errors(), written_whole(os.path.normpath(output)) as folder:
        update = _Update(served, [_checkpoint(path) for path in checkpoints], folder)
        sizes = [os.path.getsize(path) for path in exported.paths]
        for number, path in enumerate(exported.paths, 1):
            update.write(MappedTable(path))
            watch(sum(sizes[:number]), sum(sizes))
        if not update.files:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                "{}: nothing differs from what was exported, nothing was written{}".format(
                    ", ".join(checkpoints), update.missing_text
                ),
            )
        write_list(os.path.join(folder, ASSET), exported.export_id, update.files)
        num_bytes = sum(os.path.getsize(os.path.join(folder, name)) for name in update.files)
    if is_start:
        _start_from(output)
    return TableUpdate(
        output,
        update.replaced,
        update.patched,
        update.unchanged,
        update.missing,
        num_bytes,
        is_start,
    )


class _Update:
    """The files of an update."""

    def __init__(self, served: str, checkpoints: Sequence[CheckpointRows], folder: str) -> None:
        self._checkpoints = checkpoints
        self._folder = folder
        self._stored = _stored_variables(served)
        self.files: List[str] = []
        self.replaced: List[str] = []
        self.patched: Dict[str, int] = {}
        self.unchanged: List[str] = []
        self.missing: List[str] = []

    @property
    def missing_text(self) -> str:
        """Which tables no checkpoint has, behind a message."""
        return "; {} are in none of them".format(len(self.missing)) if self.missing else ""

    def write(self, exported: MappedTable) -> None:
        """Writes what differs of a table."""
        head = exported.head
        stored = self._stored.get(head.name)
        rows = None if stored is None else UpdatedRows(self._checkpoints, exported, stored)
        if rows is None or not rows.is_there:
            self.missing.append(head.name)
            return
        exported.check()
        different = _different_rows(exported, rows)
        if not len(different):
            self.unchanged.append(head.name)
            return
        self.files.append(file_name(len(self.files), head.name))
        path = os.path.join(self._folder, self.files[-1])
        if _has_many_pages(different, head.row_bytes, head.num_rows):
            blocks = blocks_of(head.num_rows, head.row_bytes)
            write_mapped_table(path, head, (rows.rows(*block) for block in blocks))
            self.replaced.append(head.name)
        else:
            write_mapped_rows(path, head, different, _chosen(rows, different, head))
            self.patched[head.name] = len(different)


def _different_rows(exported: MappedTable, rows: UpdatedRows) -> np.ndarray:
    """Numbers of the rows that are not as exported, to the bit."""
    if not exported.head.num_rows * exported.head.row_bytes:
        return np.empty([0], np.int64)
    found = []
    for first, count in blocks_of(exported.head.num_rows, exported.head.row_bytes):
        before, after = (
            np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(count, -1)
            for values in (exported.rows(first, count), rows.rows(first, count))
        )
        found.append(first + np.flatnonzero((before != after).any(1)))
    return np.concatenate(found).astype(np.int64)


def _has_many_pages(different: np.ndarray, row_bytes: int, num_rows: int) -> bool:
    pages = np.unique(
        np.concatenate([different * row_bytes // _PAGE, (different + 1) * row_bytes // _PAGE])
    )
    return len(pages) > _MOST_PAGES * (num_rows * row_bytes / _PAGE)


def _chosen(rows: UpdatedRows, numbers: np.ndarray, head: Any) -> Any:
    """The rows with these numbers, block by block."""
    for first, count in blocks_of(head.num_rows, head.row_bytes):
        inside = numbers[(numbers >= first) & (numbers < first + count)]
        if len(inside):
            yield rows.rows(first, count)[inside - first]


def _stored_variables(served: str) -> Dict[str, Stored]:
    """Where checkpoints have each variable: as the graph in TensorFlow's own ops restores it."""
    stock, _ = graphs_of_export(served)
    inline_functions(stock)
    return stored_variables(GraphView(stock.graph_def), stock.saver_def.restore_op_name)


def _checkpoint(path: str) -> CheckpointRows:
    try:
        return CheckpointRows(prefix_of(path))
    except ValueError as error:
        if "there is no checkpoint" not in str(error):
            raise
        raise tf.errors.NotFoundError(
            None, None, "{}: there is no checkpoint".format(path)
        ) from error


def _start_from(folder: str) -> None:
    """Has servers start from an update of the same folder."""
    updates, number = os.path.split(folder)
    path = os.path.join(updates, NEWEST)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(number + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
