"""Tables in TensorFlow's checkpoints: whole, in partitions, or in tensors of their own."""

from __future__ import annotations

import re
from typing import Collection, Dict, Iterable, List, NamedTuple, Sequence, Set, Tuple

import numpy as np

from graph_opt.sharding.placement import RowsRule
from graph_opt.table_files.checkpoint_rows import CheckpointRows
from graph_opt.table_files.layouts import Layout, first_rows, stretches
from graph_opt.table_files.slot_names import named_like_slots, slots_of
from graph_opt.table_files.tables import Array, Choice, Column, Source, Table

KEYS = "/keys"
POWERS = ("beta1_power", "beta2_power")
_SHOWN = 5


class Part(NamedTuple):
    """A tensor that has some of a table's rows, in one of the checkpoints."""

    checkpoint: CheckpointRows
    name: str

    def shape_of(self, pattern: str = "{}") -> Tuple[int, ...]:
        """Shape of the tensor, or of one that is named after it; empty if there is none."""
        tensor = self.checkpoint.tensors.get(pattern.format(self.name))
        return () if tensor is None else tensor.shape


class _Found(NamedTuple):
    """Where a table is."""

    parts: Tuple[Part, ...]
    rule: RowsRule
    begins: Tuple[int, ...]

    def part(self, number: int) -> Part:
        """The tensor with a part; one has all of them if they are not apart."""
        return self.parts[number if len(self.parts) > 1 else 0]


class CheckpointSource(Source):
    """Tables of checkpoints.

    Args:
      prefixes: One checkpoint, or one for each part of the tables.
      chosen: The tables. A `*` in a name stands for the numbers of its parts.
      layout: How their rows lie in them.
      weights_only: Whether to leave their slots out.

    Raises:
      ValueError: There is no such table, or its tensors are not those of the layout.
    """

    def __init__(
        self,
        prefixes: Sequence[str],
        chosen: Sequence[Choice],
        layout: Layout,
        weights_only: bool = False,
    ) -> None:
        self._checkpoints = [CheckpointRows(prefix) for prefix in prefixes]
        self._layout = layout
        self._weights_only = weights_only
        self._found: Dict[str, _Found] = {}
        self._used: Set[str] = set()
        if not chosen:
            raise ValueError(
                "{} does not say which tensors are tables: name them with --table. The largest "
                "are {}".format(prefixes[0], ", ".join(self._largest()) or "none of two dimensions")
            )
        self.tables: List[Table] = [self._table(choice) for choice in chosen]
        every = set(self._checkpoints[0].tensors)
        counters = {name for table in self.tables for name in table.counters}
        self.left_out = sorted(every - self._used - counters)
        self.used_names = sorted(self._used)

    def check(self) -> str:
        """See `Source`."""
        for checkpoint in self._checkpoints:
            for name in sorted(self._used):
                if name in checkpoint.tensors:
                    checkpoint.check(name)
        return "compared with TensorFlow's checksums"

    def keys(self, table: Table, first: int, count: int) -> Array:
        """See `Source`."""
        part = self._found[table.name].parts[0]
        return part.checkpoint.rows(part.name + KEYS, first, count).astype(np.int64)

    def rows(self, table: Table, column: int, first: int, count: int) -> Array:
        """See `Source`."""
        found, wanted = self._found[table.name], table.columns[column]
        rows = np.empty([count, wanted.width], wanted.dtype)
        for one in stretches(found.rule, first, count):
            part = found.part(one.part)
            begin = one.first + (found.begins[one.part] if len(found.parts) == 1 else 0)
            name = (wanted.pattern or "{}").format(part.name)
            rows[one.places] = part.checkpoint.rows(name, begin, one.size)
        return rows

    def _table(self, choice: Choice) -> Table:
        parts = self._parts(choice.name)
        shapes = [part.shape_of() for part in parts]
        widths = {shape[1:] for shape in shapes}
        tensor = parts[0].checkpoint.tensors[parts[0].name]
        if len(widths) > 1 or len(shapes[0]) != 2 or not tensor.pieces:
            raise ValueError(
                "{!r} of {} has shape {} and dtype {}; a table has rows and columns of numbers, "
                "and all parts as many of these".format(
                    tensor.name, parts[0].checkpoint.prefix, list(tensor.shape), tensor.dtype.name
                )
            )
        num_rows = sum(shape[0] for shape in shapes)
        found = self._placed(parts, num_rows)
        self._found[choice.new_name] = found
        self._used.update(part.name for part in parts)
        dtype = np.dtype(tensor.dtype.as_numpy_dtype)
        columns = [Column("", "", dtype, shapes[0][1])]
        if not self._weights_only:
            columns += self._slots(parts)
        has_keys = self._has_keys(parts)
        counters = counters_of(self._checkpoints[0], columns)
        return Table(choice.new_name, num_rows, tuple(columns), has_keys, counters)

    def _parts(self, name: str) -> List[Part]:
        if len(self._checkpoints) > 1:
            parts = [Part(checkpoint, name) for checkpoint in self._checkpoints]
        elif "*" in name:
            parts = [
                Part(self._checkpoints[0], name.replace("*", str(number)))
                for number in range(_last_part(name, self._checkpoints[0].tensors) + 1)
            ]
        else:
            parts = [Part(self._checkpoints[0], name)]
        missing = [part for part in parts if part.name not in part.checkpoint.tensors]
        if missing or not parts:
            lacks = missing[0] if missing else Part(self._checkpoints[0], name.replace("*", "0"))
            raise ValueError(
                "{} has no tensor {!r}; its largest are {}".format(
                    lacks.checkpoint.prefix, lacks.name, ", ".join(self._largest())
                )
            )
        return parts

    def _has_keys(self, parts: Sequence[Part]) -> bool:
        shape, name = parts[0].shape_of("{}" + KEYS), parts[0].name + KEYS
        if not shape or len(parts) > 1:
            return False
        if shape != parts[0].shape_of()[:1]:
            raise ValueError(
                "{!r} of {} has shape {}; {!r} has {} rows".format(
                    name,
                    parts[0].checkpoint.prefix,
                    list(shape),
                    parts[0].name,
                    parts[0].shape_of()[0],
                )
            )
        self._used.add(name)
        return True

    def _placed(self, parts: Sequence[Part], num_rows: int) -> _Found:
        layout, name = self._layout, parts[0].name
        if layout.apart != (len(parts) > 1) and not (layout.apart and len(parts) == 1):
            raise ValueError(
                "{!r} has {} parts in tensors of their own: say by --source-layout whether they "
                "are mod-parts or div-parts".format(name, len(parts))
            )
        count = len(parts) if layout.apart else layout.parts
        if layout.parts not in (None, count):
            raise ValueError(
                "{!r} has {} parts, not the {} of --source-layout".format(name, count, layout.parts)
            )
        rule = layout.rows(num_rows, count or 1)
        for number, part in enumerate(parts if layout.apart else ()):
            if part.shape_of()[0] != rule.num_local_rows(number):
                raise ValueError(
                    "{!r} of {} has {} rows; part {} of {} rows has {} by {}".format(
                        part.name,
                        part.checkpoint.prefix,
                        part.shape_of()[0],
                        number,
                        num_rows,
                        rule.num_local_rows(number),
                        layout,
                    )
                )
        self._check_partitions(parts, rule)
        return _Found(tuple(parts), rule, first_rows(rule))

    def _check_partitions(self, parts: Sequence[Part], rule: RowsRule) -> None:
        """A variable's partitions are slices in its checkpoint, which blocks may have cut again."""
        if len(parts) > 1 or rule.num_ranks == 1:
            return
        tensor = parts[0].checkpoint.tensors[parts[0].name]
        begins = {piece.starts[0] for piece in tensor.pieces}
        if len(begins) > 1 and not begins.issuperset(first_rows(rule)):
            raise ValueError(
                "{!r} of {} is in {} slices, which are not the partitions of {}".format(
                    tensor.name, parts[0].checkpoint.prefix, len(begins), self._layout
                )
            )

    def _slots(self, parts: Sequence[Part]) -> List[Column]:
        tensors = parts[0].checkpoint.tensors
        alike = [name for name, tensor in tensors.items() if tensor.shape == parts[0].shape_of()]
        columns = []
        for slot in slots_of(parts[0].name, alike):
            names = [slot.pattern.format(part.name) for part in parts]
            shapes = [part.shape_of(slot.pattern) for part in parts]
            if shapes != [part.shape_of() for part in parts]:
                raise ValueError(
                    "{!r} is a slot of {!r}, which not all parts have".format(
                        names[0], parts[0].name
                    )
                )
            dtype = np.dtype(tensors[names[0]].dtype.as_numpy_dtype)
            columns.append(Column(slot.optimizer, slot.slot, dtype, shapes[0][1], slot.pattern))
            self._used.update(names)
        for part in parts:
            check_all_used(part, part.checkpoint.tensors, self._used)
        return columns

    def _largest(self) -> List[str]:
        tensors = [one for one in self._checkpoints[0].tensors.values() if len(one.shape) == 2]
        tensors.sort(key=lambda one: (-one.shape[0] * one.shape[1], one.name))
        return ["{} {}".format(one.name, list(one.shape)) for one in tensors[:_SHOWN]]


def check_all_used(part: Part, tensors: Iterable[str], used: Collection[str]) -> None:
    """Makes sure that nothing is left out that is called like a slot.

    Args:
      part: The table or its part.
      tensors: Names of tensors that may be slots.
      used: Names of those that are.

    Raises:
      ValueError: Something is.
    """
    for name in named_like_slots(part.name, tensors):
        if name not in used:
            raise ValueError(
                "{!r} of {} is called like a slot of {!r}, but has another shape, or lacks the "
                "optimizer's other slots: --weights-only converts without any".format(
                    name, part.checkpoint.prefix, part.name
                )
            )


def _last_part(name: str, tensors: Iterable[str]) -> int:
    """The highest number of a table's part, so that one that is missing before is noticed."""
    pattern = re.compile(re.escape(name).replace(re.escape("*"), "([0-9]+)", 1) + r"\Z")
    matches = [pattern.match(tensor) for tensor in tensors]
    return max([int(one[1]) for one in matches if one is not None], default=-1)


def counters_of(checkpoint: CheckpointRows, columns: Sequence[Column]) -> Dict[str, float]:
    """The powers of Adam's betas, if there is one Adam only."""
    is_adam = any(column.optimizer == "Adam" for column in columns)
    if not is_adam or POWERS[0] + "_1" in checkpoint.tensors:
        return {}
    found = {}
    for name in POWERS:
        tensor = checkpoint.tensors.get(name)
        if tensor is not None and tensor.shape == () and tensor.pieces:
            found[name] = checkpoint.number(name)
    return found
