"""Dynamic tables in TensorFlow's checkpoints: DeepRec's tensors, in any number of parts."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from graph_opt.sharding.placement import BlockRows
from graph_opt.table_files.checkpoint_rows import CheckpointRows
from graph_opt.table_files.checkpoint_source import Part, check_all_used, counters_of
from graph_opt.table_files.dynamic_tensors import (
    BUCKETS,
    DEFAULT_VALUES,
    FILTERED,
    FREQS,
    KEYS,
    VALUES,
    VERSIONS,
    number_of_part,
    parts_of,
    tables_in,
    tensors_of,
)
from graph_opt.table_files.layouts import stretches
from graph_opt.table_files.ordered_rows import gathered
from graph_opt.table_files.row_blocks import blocks_of
from graph_opt.table_files.slot_names import UNKNOWN, SlotName, slots_of
from graph_opt.table_files.tables import Array, Choice, Column, Source, Table, Waiting


class _Found(NamedTuple):
    """Where a table is.

    Attributes:
      parts: Its parts.
      rule: Which part has which row.
      keys: Of all rows, part after part.
      order: Where row i is, if it is the row of key i; empty if rows are as they lie.
    """

    parts: Tuple[Part, ...]
    rule: BlockRows
    keys: Array
    order: Array


class DynamicSource(Source):
    """Dynamic tables of checkpoints.

    A table whose keys are 0, 1, ... is given in their order, and so can become a variable.

    Args:
      prefixes: One checkpoint, or several that have some of each table's keys.
      chosen: The tables; none for all dynamic ones.
      by_key: Whether to do so; else rows are given as they lie.
      weights_only: Whether to leave slots out.

    Raises:
      ValueError: There is no such table, or its tensors do not belong together.
    """

    def __init__(
        self,
        prefixes: Sequence[str],
        chosen: Sequence[Choice] = (),
        by_key: bool = True,
        weights_only: bool = False,
    ) -> None:
        self._checkpoints = [CheckpointRows(prefix) for prefix in prefixes]
        self._by_key = by_key
        self._weights_only = weights_only
        self._found: Dict[str, _Found] = {}
        self._used: Set[str] = set()
        self._slots_keys: List[Tuple[CheckpointRows, str, str]] = []
        chosen = chosen or [Choice(name, name) for name in self._names()]
        self.tables: List[Table] = [self._table(choice) for choice in chosen]
        waiting = {
            name
            for name in self._used
            for checkpoint in self._checkpoints
            if name.endswith(KEYS + FILTERED) and name in checkpoint.tensors
            if _count(checkpoint, name)
        }
        counters = {name for table in self.tables for name in table.counters}
        every = {name for checkpoint in self._checkpoints for name in checkpoint.tensors}
        self.left_out = sorted(every - self._used - counters | waiting)
        self.used_names = sorted(self._used)

    def is_dynamic(self, table: Table) -> bool:
        """See `Source`."""
        return True

    def unnumbered_key(self, table: Table) -> Optional[int]:
        """See `Source`."""
        if not table.has_keys:
            return None
        keys = np.sort(self._found[table.name].keys)
        return int(keys[(keys < 0) | (keys >= table.num_rows)][0])

    def waiting(self, table: Table) -> Waiting:
        """See `Source`."""
        numbers: List[List[Array]] = [[], [], []]
        for checkpoint, part in self._found[table.name].parts:
            if part + KEYS + FILTERED not in checkpoint.tensors:
                continue
            count = _count(checkpoint, part + KEYS + FILTERED)
            for one, suffix, missing in zip(numbers, (KEYS, VERSIONS, FREQS), (0, -1, 1)):
                one.append(np.full([count], missing, np.int64))
                name = part + suffix + FILTERED
                if name in checkpoint.tensors and _count(checkpoint, name) == count:
                    one[-1][:] = checkpoint.rows(name, 0, count)
        return Waiting(*[np.concatenate([np.empty([0], np.int64), *one]) for one in numbers])

    def default_values(self, table: Table, part: int) -> Array:
        """See `Source`."""
        parts = self._found[table.name].parts
        checkpoint, name = parts[min(part, len(parts) - 1)]
        name += DEFAULT_VALUES
        if name not in checkpoint.tensors:
            return super().default_values(table, part)
        return checkpoint.rows(name, 0, _count(checkpoint, name))

    def default_rows(self, table: Table, keys: Array) -> Array:
        """See `Source`."""
        rows = super().default_rows(table, keys)
        num_parts = len(self._found[table.name].parts)
        owners = np.mod(keys, BUCKETS) % num_parts
        for part in range(num_parts):
            bank = self.default_values(table, part)
            if len(bank):
                mine = owners == part
                rows[mine] = bank[np.mod(keys[mine], len(bank))]
        return rows

    def check(self) -> str:
        """See `Source`."""
        for checkpoint in self._checkpoints:
            for name in sorted(self._used.intersection(checkpoint.tensors)):
                checkpoint.check(name)
        for checkpoint, keys, of_slot in self._slots_keys:
            for first, count in blocks_of(_count(checkpoint, keys), 16):
                of_table = checkpoint.rows(keys, first, count)
                if not np.array_equal(of_table, checkpoint.rows(of_slot, first, count)):
                    raise ValueError(
                        "{!r} and {!r} of {} are not the same keys: the slot was not saved "
                        "together with its table".format(keys, of_slot, checkpoint.prefix)
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
        for one in stretches(found.rule, first, count):
            part = found.parts[one.part]
            values = part.checkpoint.rows(_tensor(column, part.name), one.first, one.size)
            rows[one.places] = values.reshape(one.size, column.width)
        return rows

    def _names(self) -> List[str]:
        """Names of all dynamic tables."""
        return sorted({name for one in self._checkpoints for name in tables_in(one.tensors)})

    def _parts(self, name: str) -> List[Part]:
        parts = [
            Part(checkpoint, part)
            for checkpoint in self._checkpoints
            for part in parts_of(name, checkpoint.tensors)
        ]
        if not parts:
            raise ValueError(
                "{} has no dynamic table {!r}; it has {}".format(
                    self._checkpoints[0].prefix, name, ", ".join(self._names()) or "none"
                )
            )
        numbers = sorted(number_of_part(part.name) for part in parts)
        if numbers[0] >= 0 and numbers != list(range(len(parts))):
            raise ValueError(
                "{!r} has parts {}, and not each of 0, 1, ..., {} once: give all checkpoints that "
                "have some of them".format(name, numbers, numbers[-1])
            )
        return sorted(parts, key=lambda part: number_of_part(part.name))

    def _table(self, choice: Choice) -> Table:
        parts = self._parts(choice.name)
        every = np.concatenate([_keys_of(part) for part in parts])
        order = np.argsort(every, kind="stable")
        ascending = every[order]
        twice = np.flatnonzero(ascending[1:] == ascending[:-1])
        if len(twice):
            raise ValueError(
                "{!r} of {} has key {} twice".format(
                    choice.name, parts[0].checkpoint.prefix, ascending[twice[0]]
                )
            )
        is_any = len(every) > 0 and (ascending[0] != 0 or ascending[-1] != len(every) - 1)
        if is_any or not self._by_key:
            order = np.empty([0], np.int64)
        rule = BlockRows([_count(part.checkpoint, part.name + KEYS) for part in parts])
        self._found[choice.new_name] = _Found(tuple(parts), rule, every, order)
        columns = self._columns(parts)
        counters = counters_of(self._checkpoints[0], columns)
        whole = choice.name[: -len("/part_*")] if choice.name.endswith("/part_*") else choice.name
        for checkpoint in self._checkpoints:
            self._used.update(tensors_of(whole, checkpoint.tensors))
        has_keys = bool(is_any) or not self._by_key
        return Table(choice.new_name, len(every), tuple(columns), has_keys, counters)

    def _columns(self, parts: Sequence[Part]) -> List[Column]:
        columns = [self._column(SlotName("", "", "{}"), parts)]
        for suffix in (VERSIONS, FREQS):
            if _have_counts(parts, suffix):
                columns.append(Column("", suffix[1:], np.dtype(np.int64), 1, "{}" + suffix))
        for slot in [] if self._weights_only else _slots(parts[0]):
            columns.append(self._column(slot, parts))
            for checkpoint, name in parts:
                keys = slot.pattern.format(name) + KEYS
                self._slots_keys.append((checkpoint, name + KEYS, keys))
        if not self._weights_only:
            self._check_slots(parts, columns)
        return columns

    def _check_slots(self, parts: Sequence[Part], columns: Sequence[Column]) -> None:
        """Those of all parts are those of the first, and an optimizer has all of its own."""
        known = {column.pattern for column in columns}
        used = {name[: -len(KEYS)] for name in self._used if name.endswith(KEYS)}
        for part in parts:
            for slot in _slots(part):
                if slot.pattern not in known:
                    raise ValueError(
                        "{} has slot {!r}, which other parts of the table lack: --weights-only "
                        "converts without any".format(
                            part.checkpoint.prefix, slot.pattern.format(part.name)
                        )
                    )
            unknown = {
                column.pattern.format(part.name) for column in columns if column.slot == UNKNOWN
            }
            check_all_used(part, _names_with_keys(part), used - unknown)

    def _column(self, slot: SlotName, parts: Sequence[Part]) -> Column:
        shapes = []
        for checkpoint, part in parts:
            name = slot.pattern.format(part) + VALUES
            tensor = checkpoint.tensors.get(name)
            shape = () if tensor is None else tensor.shape
            if len(shape) != 2 or shape[0] != _count(checkpoint, part + KEYS):
                raise ValueError(
                    "{} has no rows {!r} for the {} keys of {!r}".format(
                        checkpoint.prefix, name, _count(checkpoint, part + KEYS), part
                    )
                )
            self._used.update({name, slot.pattern.format(part) + KEYS})
            shapes.append(shape)
        if len({shape[1] for shape in shapes}) > 1:
            raise ValueError("parts of {!r} have rows of several widths".format(parts[0].name))
        values = slot.pattern.format(parts[0].name) + VALUES
        dtype = np.dtype(parts[0].checkpoint.tensors[values].dtype.as_numpy_dtype)
        return Column(slot.optimizer, slot.slot, dtype, shapes[0][1], slot.pattern)


def _slots(part: Part) -> List[SlotName]:
    """Slots by their names; those that no optimizer is known to have, too."""
    every = _names_with_keys(part)
    known = slots_of(part.name, every)
    patterns = {slot.pattern for slot in known}
    for name in sorted(every):
        below = name[len(part.name) + 1 :]
        if name.startswith(part.name + "/") and "/" not in below and "{}/" + below not in patterns:
            known.append(SlotName(below, UNKNOWN, "{}/" + below))
    return known


def _names_with_keys(part: Part) -> List[str]:
    return [name[: -len(KEYS)] for name in part.checkpoint.tensors if name.endswith(KEYS)]


def _count(checkpoint: CheckpointRows, name: str) -> int:
    shape = checkpoint.tensors[name].shape
    if not shape:
        raise ValueError("{!r} of {} is a single value".format(name, checkpoint.prefix))
    return int(shape[0])


def _keys_of(part: Part) -> Array:
    name = part.name + KEYS
    if len(part.shape_of("{}" + KEYS)) != 1:
        raise ValueError(
            "{!r} of {} has shape {}; keys are a vector".format(
                name, part.checkpoint.prefix, list(part.shape_of("{}" + KEYS))
            )
        )
    return part.checkpoint.rows(name, 0, _count(part.checkpoint, name)).astype(np.int64)


def _have_counts(parts: Sequence[Part], suffix: str) -> bool:
    """Whether there is a number for each key; DeepRec writes empty tensors for what it lacks."""
    sizes = [(part.shape_of("{}" + suffix), part.shape_of("{}" + KEYS)) for part in parts]
    whole = all(size == of_keys for size, of_keys in sizes)
    if not whole and any(size not in ((), (0,)) for size, _ in sizes):
        raise ValueError(
            "{!r} of {} has not a number for each key of each part".format(
                parts[0].name + suffix, parts[0].checkpoint.prefix
            )
        )
    return whole


def _tensor(column: Column, part: str) -> str:
    name = column.pattern.format(part)
    return name if column.is_count else name + VALUES
