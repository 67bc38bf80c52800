"""Converts saved tables: reads, writes, reads back what was written, and only then names it."""

from __future__ import annotations

import os
import shutil
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.table_files.checksums import crc32
from graph_opt.table_files.tables import Column, Source, Table, Target

Watch = Callable[[str, int, int], None]
WRITING, READING_BACK = "writing", "reading back"
Checksums = Dict[Tuple[str, str], int]


class Converted(NamedTuple):
    """A column of a table.

    Attributes:
      table: The table as it is stored.
      column: The column.
      place: What it is called in the target.
      crc32: Checksum of its rows in the order of the table; None in a dry run.
    """

    table: Table
    column: Column
    place: str
    crc32: Optional[int]


class Conversion(NamedTuple):
    """What was done.

    Attributes:
      columns: Of all tables.
      dropped: Columns that the target has no place for, by name of table and label.
      copied: What else the target got, as it was.
      left_out: What else the source has.
      checked: How the source was checked, in a few words.
      num_bytes: What the target takes.
    """

    columns: Sequence[Converted]
    dropped: Sequence[str]
    copied: Sequence[str]
    left_out: Sequence[str]
    checked: str
    num_bytes: int


def convert(
    source: Source, target: Target, path: str, dry_run: bool, watch: Watch = lambda *_: None
) -> Conversion:
    """Converts all tables of a source.

    Args:
      source: Where from.
      target: Where to.
      path: The same, as the file system knows it.
      dry_run: Whether to check all that can be, and write nothing.
      watch: Told what is done to tables, `WRITING` or `READING_BACK`, to how many rows it has been,
        and how many there are.

    Raises:
      ValueError: Something is damaged, or the target cannot hold it, or has no room.
      OSError: A file cannot be read or written.
    """
    checked = source.check()
    source = target.arranged(source)
    stored = [target.stored(table) for table in source.tables]
    num_bytes = sum(table.num_bytes for table in stored) + target.other_bytes
    _check_room(path, num_bytes)
    sums: Checksums = {}
    if not dry_run:
        try:
            target.begin(stored)
            sums = _copy(source, stored, target, watch)
            _compare(sums, target.finish(), stored, watch)
            target.publish()
        except BaseException:
            target.discard()
            raise
    columns = [
        Converted(table, column, target.place(table, column), sums.get((table.name, column.label)))
        for table in stored
        for column in table.columns
    ]
    copied = list(target.copied)
    left_out = sorted(set(source.left_out) - set(copied))
    dropped = _dropped(source.tables, stored)
    return Conversion(columns, dropped, copied, left_out, checked, num_bytes)


def _copy(source: Source, stored: Sequence[Table], target: Target, watch: Watch) -> Checksums:
    sums: Checksums = {}
    copied, rows_of_all = 0, sum(table.num_rows for table in stored)
    for table, kept in zip(source.tables, stored):
        labels = [column.label for column in table.columns]
        places = [labels.index(column.label) for column in kept.columns]
        done = 0
        for keys, rows in source.blocks(table):
            values = [
                np.ascontiguousarray(rows[place], column.dtype)
                for place, column in zip(places, kept.columns)
            ]
            _add(sums, kept, keys, values)
            target.write(kept, done, keys, values)
            done += len(keys)
            copied += len(keys)
            watch(WRITING, copied, rows_of_all)
    return sums


def _compare(sums: Checksums, written: Source, stored: Sequence[Table], watch: Watch) -> None:
    found: Checksums = {}
    compared, rows_of_all = 0, sum(table.num_rows for table in stored)
    by_name = {table.name: table for table in written.tables}
    for table in stored:
        again = by_name[table.name]
        labels = [column.label for column in again.columns]
        for keys, rows in written.blocks(again):
            values = [rows[labels.index(column.label)] for column in table.columns]
            _add(found, table, keys, values)
            compared += len(keys)
            watch(READING_BACK, compared, rows_of_all)
    wrong = sorted(name for name in sums if found.get(name) != sums[name])
    if wrong:
        raise ValueError(
            "{} of {!r} was not written as it was read: the disk may be faulty".format(
                wrong[0][1], wrong[0][0]
            )
        )


def _add(sums: Checksums, table: Table, keys: np.ndarray, values: Sequence[np.ndarray]) -> None:
    for column, rows in zip(table.columns, values):
        name = (table.name, column.label)
        sums[name] = crc32(rows, sums.get(name, 0))
    if table.has_keys:
        name = (table.name, "keys")
        sums[name] = crc32(keys, sums.get(name, 0))


def _dropped(tables: Sequence[Table], stored: Sequence[Table]) -> List[str]:
    dropped = []
    for table, kept in zip(tables, stored):
        labels = {column.label for column in kept.columns}
        names = [column.label for column in table.columns if column.label not in labels]
        if len(kept.counters) < len(table.counters):
            names += sorted(table.counters)
        dropped += ["{} of {}".format(name, table.name) for name in names]
    return dropped


def _check_room(path: str, num_bytes: int) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise ValueError(
            "{} needs {} bytes, and {} has {} left".format(path, num_bytes, folder, free)
        )
