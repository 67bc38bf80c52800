"""Tables into a TensorFlow checkpoint, with all other tensors of one that there is."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from typing import Any, List, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.table_files.checkpoint_rows import CheckpointRows
from graph_opt.table_files.checkpoint_slices import (
    CheckpointParts,
    TensorSlice,
    copy_tensors,
    file_steps,
    merge_parts,
    whole_tensor,
)
from graph_opt.table_files.checkpoint_source import KEYS, CheckpointSource
from graph_opt.table_files.dynamic_tensors import tensors_of
from graph_opt.table_files.layouts import Layout, first_rows, stretches
from graph_opt.table_files.slot_names import UNKNOWN, named_like_slots, pattern_of
from graph_opt.table_files.tables import Array, Choice, Column, Source, Table, Target

_COPIED_BYTES = 256 << 20


class CheckpointTarget(Target):
    """A new checkpoint.

    Args:
      prefix: What it will be called.
      layout: How the rows of tables lie in it.
      others: A checkpoint whose other tensors are copied; None for none.
      without: Names that are not copied.

    Attributes:
      layout: As given.
      folder: Where all is until it has its final name.
      parts: The parts of the checkpoint (`CheckpointParts`).
      written: The tables.
    """

    def __init__(
        self, prefix: str, layout: Layout, others: Optional[str], without: Sequence[str]
    ) -> None:
        self._prefix = os.path.abspath(prefix)
        self.layout = layout
        self._others = None if others is None else CheckpointRows(others)
        self._without = set(without)
        self.folder = "{}_tables_{}".format(self._prefix, uuid.uuid4().hex[:12])
        self._resources = contextlib.ExitStack()
        self._steps: Any = None
        self.parts: Any = None
        self.written: List[Table] = []
        self._whole = os.path.join(self.folder, "whole")

    @property
    def copied(self) -> Sequence[str]:
        """See `Target`."""
        return [] if self._others is None else self._names_of_others()

    @property
    def other_bytes(self) -> int:
        """See `Target`."""
        return sum(self._bytes_of(name) for name in self.copied)

    def stored(self, table: Table) -> Table:
        """See `Target`."""
        if table.has_keys and self.layout.parts != 1 and not self._keeps_keys():
            raise ValueError(
                "{!r} has rows of any keys, which are in no order that {} could divide".format(
                    table.name, self.layout
                )
            )
        slots = [column.slot for column in table.columns if column.is_slot]
        columns = [
            column
            if column.pattern or not column.is_slot
            else column._replace(pattern=pattern_of(column.optimizer, column.slot, slots))
            for column in self._columns_of(table)
        ]
        kept = table._replace(columns=tuple(columns))
        self._without.update(self._names(kept))
        if self._others is not None:
            self._without.update(self._in_other_layouts(kept, self._others))
        return kept

    def place(self, table: Table, column: Column) -> str:
        """See `Target`."""
        return (column.pattern or "{}").format(self.name_of_part(table, "*"))

    def begin(self, tables: Sequence[Table]) -> None:
        """See `Target`."""
        os.makedirs(self.folder)
        self._steps = self._resources.enter_context(file_steps())
        self.parts = CheckpointParts(self.folder, self._steps)
        self.written = list(tables)

    def write(self, table: Table, first: int, keys: Array, rows: Sequence[Array]) -> None:
        """See `Target`."""
        slices: List[TensorSlice] = []
        rule = self.layout.rows(table.num_rows, self.layout.parts or 1)
        begins = first_rows(rule)
        for column, values in zip(table.columns, rows if not table.num_rows else ()):
            for part in range(rule.num_ranks if self.layout.apart else 1):
                name = (column.pattern or "{}").format(self.name_of_part(table, str(part)))
                slices.append(TensorSlice(name, 0, 0, values))
        for one in stretches(rule, first, len(keys)):
            name = self.name_of_part(table, str(one.part))
            size, begin = rule.num_local_rows(one.part), one.first
            if not self.layout.apart:
                size, begin = table.num_rows, begin + begins[one.part]
            for column, values in zip(table.columns, rows):
                tensor = (column.pattern or "{}").format(name)
                slices.append(TensorSlice(tensor, size, begin, values[one.places]))
        if table.has_keys:
            slices.append(TensorSlice(table.name + KEYS, table.num_rows, first, keys))
        self.parts.write(*slices)

    def finish(self) -> Source:
        """See `Target`."""
        prefix = self.merged()
        apart = self.layout.apart
        chosen = [
            Choice(self.name_of_part(table, "*") if apart else table.name, table.name)
            for table in self.written
        ]
        return CheckpointSource([prefix], chosen, self.layout)

    def merged(self) -> str:
        """Makes a checkpoint of what was written and what is copied; gives its prefix."""
        self._write_counters()
        prefixes = self.parts.prefixes + self._copied_others()
        merge_parts(prefixes, self._whole, self._steps)
        self._resources.close()
        return self._whole

    def publish(self) -> None:
        """See `Target`."""
        folder = os.path.dirname(self._prefix)
        made = sorted(name for name in os.listdir(self.folder) if name.startswith("whole."))
        for name in sorted(made, key=lambda name: name.endswith(".index")):
            path = self._prefix + name[len("whole") :]
            os.replace(os.path.join(self.folder, name), path)
        state = os.path.join(folder, "checkpoint")
        if not os.path.exists(state):
            name = os.path.basename(self._prefix)
            with open(state, "w", encoding="utf-8") as opened:
                opened.write(str(tf.train.generate_checkpoint_state_proto(folder, name)))
        self.discard()

    def discard(self) -> None:
        """See `Target`."""
        self._resources.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _keeps_keys(self) -> bool:
        """Whether rows may be those of any keys, however many parts there are."""
        return False

    def _columns_of(self, table: Table) -> List[Column]:
        """Columns that there is a place for: those by which TensorFlow's optimizers train."""
        return [one for one in table.columns if not one.is_count and one.slot != UNKNOWN]

    def name_of_part(self, table: Table, part: str) -> str:
        """What a part of a table is called."""
        return "{}/part_{}".format(table.name, part) if self.layout.apart else table.name

    def _names(self, table: Table) -> List[str]:
        """Names of all tensors of a table."""
        parts = range((self.layout.parts or 1) if self.layout.apart else 1)
        names = [self.name_of_part(table, str(part)) for part in parts]
        patterns = [column.pattern or "{}" for column in table.columns] + ["{}" + KEYS]
        return [pattern.format(name) for name in names for pattern in patterns]

    def _in_other_layouts(self, table: Table, others: CheckpointRows) -> List[str]:
        """Tensors of the same table that lie there in another way, and so cannot be used."""
        part = re.compile(re.escape(table.name) + r"(/part_[0-9]+)?\Z")
        names = tensors_of(table.name, others.tensors)
        for name in set(filter(part.match, others.tensors)) - self._without:
            names += [name, name + KEYS, *named_like_slots(name, others.tensors)]
        return names

    def _copied_others(self) -> List[str]:
        """Parts with the other tensors, which do not pass through Python."""
        prefixes: List[str] = []
        names: List[str] = []
        size = 0
        for name in self.copied:
            names.append(name)
            size += self._bytes_of(name)
            if size > _COPIED_BYTES:
                prefixes.append(self._copied(names, len(prefixes)))
                names, size = [], 0
        return prefixes + ([self._copied(names, len(prefixes))] if names else [])

    def _copied(self, names: Sequence[str], number: int) -> str:
        assert self._others is not None
        prefix = os.path.join(self.folder, "others-{:05d}".format(number))
        dtypes = [self._others.tensors[name].dtype for name in names]
        copy_tensors(self._steps, self._others.prefix, prefix, names, dtypes)
        return prefix

    def _write_counters(self) -> None:
        """What optimizers count, unless it is copied."""
        known = set(self.copied)
        found = {
            name: np.float32(value)
            for table in self.written
            for name, value in table.counters.items()
            if name != "iterations" and name not in known
        }
        if found:
            self.parts.write(*[whole_tensor(name, np.array(of)) for name, of in found.items()])

    def _names_of_others(self) -> List[str]:
        assert self._others is not None
        return sorted(set(self._others.tensors) - self._without)

    def _bytes_of(self, name: str) -> int:
        assert self._others is not None
        tensor = self._others.tensors[name]
        return int(np.prod(tensor.shape, dtype=np.int64)) * max(1, tensor.dtype.size or 1)
