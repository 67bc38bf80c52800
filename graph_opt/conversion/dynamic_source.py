"""Dynamic tables in TensorFlow's checkpoints: DeepRec's tensors, in any number of parts."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Set, Tuple

import numpy as np

from graph_opt.conversion import tables as blocks
from graph_opt.conversion.checkpoint_source import counters_of
from graph_opt.conversion.dynamic_tensors import (
    DEFAULT_VALUES,
    FILTERED,
    FREQS,
    KEYS,
    VALUES,
    VERSIONS,
    parts_of,
    tables_in,
    tensors_of,
)
from graph_opt.conversion.ordered_rows import gathered
from graph_opt.conversion.slot_names import UNKNOWN, SlotName, slots_of
from graph_opt.conversion.tables import Array, Choice, Column, Source, Table
from graph_opt.sharding.checkpoint_rows import CheckpointRows


class Waiting(NamedTuple):
    """Keys that a filter has counted, and that have no row yet.

    Attributes:
      keys: int64.
      versions: Of each, int64; empty if there are none.
      frequencies: Of each, int64.
    """

    keys: Array
    versions: Array
    frequencies: Array


class _Found(NamedTuple):
    """Where a table is.

    Attributes:
      parts: Names of its parts.
      begins: Number of the first row of each part, and of all rows.
      keys: Of all rows, part after part.
      order: Where row i is, if it is the row of key i; empty if rows are as they lie.
    """

    parts: Tuple[str, ...]
    begins: Array
    keys: Array
    order: Array


class DynamicSource(Source):
    """Dynamic tables of a checkpoint.

    A table whose keys are 0, 1, ... is given in their order, and so can become a variable.

    Args:
      prefix: The checkpoint.
      chosen: The tables; none for all dynamic ones.
      by_key: Whether to do so; else rows are given as they lie.

    Raises:
      ValueError: There is no such table, or its tensors do not belong together.
    """

    def __init__(self, prefix: str, chosen: Sequence[Choice] = (), by_key: bool = True) -> None:
        self._checkpoint = CheckpointRows(prefix)
        self._by_key = by_key
        self._found: Dict[str, _Found] = {}
        self._used: Set[str] = set()
        self._slots_keys: List[Tuple[str, str]] = []
        chosen = chosen or [Choice(name, name) for name in tables_in(self._checkpoint.tensors)]
        self.tables: List[Table] = [self._table(choice) for choice in chosen]
        waiting = {
            name for name in self._used if name.endswith(KEYS + FILTERED) and self._count(name)
        }
        counters = {name for table in self.tables for name in table.counters}
        self.left_out = sorted(set(self._checkpoint.tensors) - self._used - counters | waiting)

    @property
    def used_names(self) -> List[str]:
        """Names of all tensors of the tables and their slots."""
        return sorted(self._used)

    def require_rows(self) -> None:
        """Makes sure that the keys of each table are 0, 1, ..., as those of a variable.

        Raises:
          ValueError: They are not.
        """
        for table in self.tables:
            if not table.has_keys:
                continue
            keys = np.sort(self._found[table.name].keys)
            wrong = keys[(keys < 0) | (keys >= table.num_rows)]
            raise ValueError(
                "{!r} has {} rows, and key {} is none of 0, 1, ..., {}: only --to sok and --layout "
                "dynamic:N keep keys".format(
                    table.name, table.num_rows, wrong[0], table.num_rows - 1
                )
            )

    def waiting(self, table: Table) -> Waiting:
        """Keys of a table that wait for a row."""
        numbers: List[List[Array]] = [[], [], []]
        for part in self._found[table.name].parts:
            if part + KEYS + FILTERED not in self._checkpoint.tensors:
                continue
            count = self._count(part + KEYS + FILTERED)
            for one, suffix, missing in zip(numbers, (KEYS, VERSIONS, FREQS), (0, -1, 1)):
                one.append(np.full([count], missing, np.int64))
                name = part + suffix + FILTERED
                if name in self._checkpoint.tensors and self._count(name) == count:
                    one[-1][:] = self._checkpoint.rows(name, 0, count)
        return Waiting(*[np.concatenate([np.empty([0], np.int64), *one]) for one in numbers])

    def default_values(self, table: Table, part: int) -> Array:
        """What rows of new keys start as in a part, [count, width]; of no rows if there is none."""
        parts = self._found[table.name].parts
        name = parts[min(part, len(parts) - 1)] + DEFAULT_VALUES
        if name not in self._checkpoint.tensors:
            return np.empty([0, table.columns[0].width], np.float32)
        return self._checkpoint.rows(name, 0, self._count(name))

    def check(self) -> str:
        """See `Source`."""
        for name in sorted(self._used):
            self._checkpoint.check(name)
        size = max(1, blocks.BLOCK_BYTES // 16)
        for keys, of_slot in self._slots_keys:
            for first in range(0, self._count(keys), size):
                count = min(size, self._count(keys) - first)
                of_table = self._checkpoint.rows(keys, first, count)
                if not np.array_equal(of_table, self._checkpoint.rows(of_slot, first, count)):
                    raise ValueError(
                        "{!r} and {!r} of {} are not the same keys: the slot was not saved "
                        "together with its table".format(keys, of_slot, self._checkpoint.prefix)
                    )
        return "compared with TensorFlow's checksums"

    def keys(self, table: Table, first: int, count: int) -> Array:
        """See `Source`."""
        return self._found[table.name].keys[first : first + count]

    def rows(self, table: Table, column: int, first: int, count: int) -> Array:
        """See `Source`."""
        found, wanted = self._found[table.name], table.columns[column]
        if not len(found.order):
            return self._as_they_lie(found, wanted, first, count)

        def read(begin: int, size: int) -> Array:
            return self._as_they_lie(found, wanted, begin, size)

        return gathered(read, wanted, found.order[first : first + count])

    def _as_they_lie(self, found: _Found, column: Column, first: int, count: int) -> Array:
        rows = np.empty([count, column.width], column.dtype)
        for part, begin, end in zip(found.parts, found.begins[:-1], found.begins[1:]):
            low, high = max(first, int(begin)), min(first + count, int(end))
            if low < high:
                name = _tensor(column, part)
                values = self._checkpoint.rows(name, low - int(begin), high - low)
                rows[low - first : high - first] = values.reshape(high - low, column.width)
        return rows

    def _count(self, name: str) -> int:
        return int(self._checkpoint.tensors[name].shape[0])

    def _table(self, choice: Choice) -> Table:
        tensors = self._checkpoint.tensors
        parts = parts_of(choice.name, tensors)
        if not parts:
            raise ValueError(
                "{} has no dynamic table {!r}; it has {}".format(
                    self._checkpoint.prefix, choice.name, ", ".join(tables_in(tensors)) or "none"
                )
            )
        keys = [self._checkpoint.rows(part + KEYS, 0, self._count(part + KEYS)) for part in parts]
        every = np.concatenate(keys).astype(np.int64)
        order = np.argsort(every, kind="stable")
        ascending = every[order]
        twice = np.flatnonzero(ascending[1:] == ascending[:-1])
        if len(twice):
            raise ValueError(
                "{!r} of {} has key {} twice".format(
                    choice.name, self._checkpoint.prefix, ascending[twice[0]]
                )
            )
        is_any = len(every) > 0 and (ascending[0] != 0 or ascending[-1] != len(every) - 1)
        if is_any or not self._by_key:
            order = np.empty([0], np.int64)
        begins = np.cumsum([0] + [len(one) for one in keys])
        self._found[choice.new_name] = _Found(tuple(parts), begins, every, order)
        columns = self._columns(parts)
        counters = counters_of(self._checkpoint, columns)
        whole = choice.name[: -len("/part_*")] if choice.name.endswith("/part_*") else choice.name
        self._used.update(tensors_of(whole, tensors))
        has_keys = bool(is_any) or not self._by_key
        return Table(choice.new_name, len(every), tuple(columns), has_keys, counters)

    def _columns(self, parts: Sequence[str]) -> List[Column]:
        columns = [self._column(SlotName("", "", "{}"), parts)]
        for suffix in (VERSIONS, FREQS):
            names = [part + suffix for part in parts]
            if all(
                name in self._checkpoint.tensors and self._count(name) == self._count(part + KEYS)
                for name, part in zip(names, parts)
            ):
                columns.append(Column("", suffix[1:], np.dtype(np.int64), 1, "{}" + suffix))
        for slot in self._slots(parts[0]):
            columns.append(self._column(slot, parts))
            for part in parts:
                self._slots_keys.append((part + KEYS, slot.pattern.format(part) + KEYS))
        return columns

    def _column(self, slot: SlotName, parts: Sequence[str]) -> Column:
        shapes = []
        for part in parts:
            name = slot.pattern.format(part) + VALUES
            tensor = self._checkpoint.tensors.get(name)
            shape = () if tensor is None else tensor.shape
            if len(shape) != 2 or shape[0] != self._count(part + KEYS):
                raise ValueError(
                    "{} has no rows {!r} for the {} keys of {!r}".format(
                        self._checkpoint.prefix, name, self._count(part + KEYS), part
                    )
                )
            self._used.update({name, slot.pattern.format(part) + KEYS})
            shapes.append(shape)
        if len({shape[1] for shape in shapes}) > 1:
            raise ValueError("parts of {!r} have rows of several widths".format(parts[0]))
        first = self._checkpoint.tensors[slot.pattern.format(parts[0]) + VALUES]
        dtype = np.dtype(first.dtype.as_numpy_dtype)
        return Column(slot.optimizer, slot.slot, dtype, shapes[0][1], slot.pattern)

    def _slots(self, part: str) -> List[SlotName]:
        """Slots by their names; those that no optimizer is known to have, too."""
        every = [name[: -len(KEYS)] for name in self._checkpoint.tensors if name.endswith(KEYS)]
        known = slots_of(part, every)
        patterns = {slot.pattern for slot in known}
        for name in sorted(every):
            below = name[len(part) + 1 :]
            if name.startswith(part + "/") and "/" not in below and "{}/" + below not in patterns:
                known.append(SlotName(below, UNKNOWN, "{}/" + below))
        return known


def _tensor(column: Column, part: str) -> str:
    name = column.pattern.format(part)
    return name if column.is_count else name + VALUES
