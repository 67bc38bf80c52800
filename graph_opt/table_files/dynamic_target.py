"""Dynamic tables into a TensorFlow checkpoint, as DeepRec and graph_opt restore them."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from graph_opt.sharding.placement import BlockRows
from graph_opt.table_files.checkpoint_rows import CheckpointRows
from graph_opt.table_files.checkpoint_slices import whole_tensor
from graph_opt.table_files.checkpoint_target import CheckpointTarget
from graph_opt.table_files.dynamic_source import DynamicSource
from graph_opt.table_files.dynamic_tensors import (
    BUCKETS,
    DEFAULT_VALUES,
    FILTER_OFFSETS,
    FILTERED,
    FREQS,
    KEYS,
    OFFSETS,
    VALUES,
    VERSIONS,
)
from graph_opt.table_files.layouts import stretches
from graph_opt.table_files.ordered_rows import Arranged, OrderedSource, all_keys
from graph_opt.table_files.tables import Array, Choice, Column, Source, Table, Waiting

_NONE = np.empty([0], np.int64)


class DynamicTarget(CheckpointTarget):
    """A new checkpoint with dynamic tables.

    Tables of keys may not be in slices, so their rows are collected in files, which are then
    mapped to memory and written as they are.

    See `CheckpointTarget` for the arguments; a layout has `parts` parts.
    """

    _buckets: Dict[str, Array]
    _origin: Source

    def arranged(self, source: Source) -> Source:
        """See `Target`: part by part, and in each by remainders of keys."""
        self._origin, self._buckets = source, {}
        tables: Dict[str, Arranged] = {}
        for table in source.tables:
            keys = all_keys(source, table)
            buckets = np.mod(keys, BUCKETS)
            places = np.lexsort((buckets, buckets % self._num_parts))
            counts = np.bincount(buckets, minlength=BUCKETS)
            self._buckets[table.name] = counts
            tables[table.name] = Arranged(table._replace(has_keys=True), keys, places)
        left_out = [name for name in source.left_out if not name.endswith(KEYS + FILTERED)]
        return OrderedSource(source, tables, left_out)

    def stored(self, table: Table) -> Table:
        """See `Target`."""
        for column in table.columns:
            if column.is_count or _is_row_number(column):
                continue
            if column.dtype.kind != "f" and column.dtype.name != "bfloat16":
                raise ValueError(
                    "{!r} has dtype {}; rows of dynamic tables are float32".format(
                        table.name, column.dtype.name
                    )
                )
            if column.width != table.columns[0].width:
                raise ValueError(
                    "{!r} has rows of {} numbers, and its slot {!r} of {}".format(
                        table.name, table.columns[0].width, column.label, column.width
                    )
                )
        single = np.dtype(np.float32)
        columns = [
            column if column.is_count or _is_row_number(column) else column._replace(dtype=single)
            for column in table.columns
        ]
        return super().stored(table._replace(columns=tuple(columns)))

    def begin(self, tables: Sequence[Table]) -> None:
        """See `Target`."""
        super().begin(tables)
        os.makedirs(os.path.join(self.folder, "rows"))

    def write(self, table: Table, first: int, keys: Array, rows: Sequence[Array]) -> None:
        """See `Target`."""
        rule = BlockRows([self._size(table, part) for part in range(self._num_parts)])
        for one in stretches(rule, first, len(keys)):
            for number, values in enumerate([keys, *rows]):
                with open(self._file(table, one.part, number), "ab") as opened:
                    values[one.places].tofile(opened)

    def finish(self) -> Source:
        """See `Target`."""
        for table in self.written:
            for part in range(self._num_parts):
                self._write_part(table, part)
        prefix = self.merged()
        chosen = [Choice(table.name, table.name) for table in self.written]
        return DynamicSource([prefix], chosen, by_key=False)

    @property
    def _num_parts(self) -> int:
        return self.layout.parts or 1

    def _keeps_keys(self) -> bool:
        return True

    def _columns_of(self, table: Table) -> List[Column]:
        return list(table.columns)

    def _size(self, table: Table, part: int) -> int:
        return int(self._buckets[table.name][part :: self._num_parts].sum())

    def _file(self, table: Table, part: int, number: int) -> str:
        place = [one.name for one in self.written].index(table.name)
        return os.path.join(self.folder, "rows", "{}-{}-{}".format(place, part, number))

    def _mapped(self, table: Table, part: int, number: int, dtype: Any, width: int) -> Array:
        shape = (self._size(table, part), width)[: 2 if width else 1]
        if not self._size(table, part):
            return np.empty(shape, dtype)
        return np.memmap(self._file(table, part, number), dtype, "r", shape=shape)

    def _write_part(self, table: Table, part: int) -> None:
        name = self.name_of_part(table, str(part))
        keys = self._mapped(table, part, 0, np.int64, 0)
        counts = np.array(self._buckets[table.name])
        counts[np.arange(BUCKETS) % self._num_parts != part] = 0
        tensors: Dict[str, Array] = {}
        for number, column in enumerate(table.columns):
            if column.is_count:
                mapped = self._mapped(table, part, number + 1, np.int64, 0)
                tensors[column.pattern.format(name)] = mapped
                continue
            values = self._mapped(table, part, number + 1, column.dtype, column.width)
            stem = (column.pattern or "{}").format(name)
            waiting = None if column.is_slot else self._waiting(table, part)
            rows = _rows_of(stem, keys, values, counts, waiting)
            tensors.update({one: rows[one] for one in rows if one not in tensors})
        bank = self._origin.default_values(table, part)
        if len(bank):
            tensors[name + DEFAULT_VALUES] = bank
        self.parts.write(*[whole_tensor(one, values) for one, values in tensors.items()])
        for number in range(len(table.columns) + 1 if len(keys) else 0):
            os.remove(self._file(table, part, number))

    def _waiting(self, table: Table, part: int) -> Waiting:
        every = self._origin.waiting(table)
        buckets = np.mod(every.keys, BUCKETS)
        mine = np.flatnonzero(buckets % self._num_parts == part)
        mine = mine[np.argsort(buckets[mine], kind="stable")]
        return Waiting(*[one[mine] for one in every])

    def _names(self, table: Table) -> List[str]:
        return []

    def _in_other_layouts(self, table: Table, others: CheckpointRows) -> List[str]:
        slots = [(column.pattern or "{}").format(table.name) for column in table.columns]
        static = [name for name in slots if name in others.tensors]
        return super()._in_other_layouts(table, others) + static


def _is_row_number(column: Column) -> bool:
    """Whether it is a slot of one integer for each row, such as how often it has decayed."""
    return column.is_slot and column.dtype.kind == "i"


def _rows_of(
    stem: str, keys: Array, values: Array, counts: Array, waiting: Optional[Waiting]
) -> Dict[str, Array]:
    """All tensors of a table, a part or a slot; versions and frequencies are empty."""
    found = waiting or Waiting(_NONE, _NONE, _NONE)
    waiting_counts = np.bincount(np.mod(found.keys, BUCKETS), minlength=BUCKETS)
    return {
        stem + KEYS: keys,
        stem + VALUES: values,
        stem + VERSIONS: _NONE,
        stem + FREQS: _NONE,
        stem + OFFSETS: _offsets(counts),
        stem + KEYS + FILTERED: found.keys,
        stem + VERSIONS + FILTERED: found.versions,
        stem + FREQS + FILTERED: found.frequencies,
        stem + FILTER_OFFSETS: _offsets(waiting_counts),
    }


def _offsets(counts: Array) -> Array:
    return np.cumsum(np.concatenate([[0], counts])).astype(np.int32)
