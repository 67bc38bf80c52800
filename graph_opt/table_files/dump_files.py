"""Tables in the files of SparseOperationKit, which `sok.dump` writes."""

from __future__ import annotations

import functools
import os
import shutil
import uuid
from typing import Dict, List, Optional, Sequence

import numpy as np

from graph_opt.table_files.format import Format, has_file
from graph_opt.table_files.key_runs import KeyRuns
from graph_opt.table_files.ordered_rows import gathered
from graph_opt.table_files.sok_files import (
    DTYPES,
    HEADER,
    KEY,
    SLOT,
    WEIGHT,
    TableFile,
    TableFiles,
    TableWriter,
    as_bytes,
    file_name_of,
    files_of,
    stored_column,
    suffix_of,
)
from graph_opt.table_files.sok_reader import TableReader, read_header
from graph_opt.table_files.tables import Array, Choice, Column, Source, Table, Target

_KEY_SUFFIX = "-key"
_SIDECAR = "graph_opt.json"


class DumpSource(Source):
    """Tables of a folder.

    Args:
      folder: Where the files are.
      chosen: By the name of the variable or of the files; none for all.
      weights_only: Whether to leave slots out.

    Raises:
      ValueError: There is no such table, or files are damaged.
    """

    def __init__(
        self, folder: str, chosen: Sequence[Choice] = (), weights_only: bool = False
    ) -> None:
        self._folder = folder
        self._weights_only = weights_only
        self._readers: Dict[str, TableReader] = {}
        self._runs: Dict[str, KeyRuns] = {}
        stems = sorted(
            name[: -len(_KEY_SUFFIX)]
            for name in os.listdir(folder)
            if name.endswith(_KEY_SUFFIX) and "-" not in name[: -len(_KEY_SUFFIX)]
        )
        self._of_keys = {stem: self._keys_of(stem) for stem in stems}
        known = {stem: self._name(stem) for stem in stems}
        pairs = [(stem, known[stem]) for stem in stems]
        if chosen:
            pairs = [(self._stem(choice.name, known), choice.new_name) for choice in chosen]
        self.tables: List[Table] = [self._table(stem, name) for stem, name in pairs]
        used = {stem for stem, _ in pairs}
        self.left_out = [known[stem] for stem in stems if stem not in used]

    def check(self) -> str:
        """See `Source`."""
        unchecked = []
        for table in self.tables:
            reader = self._readers[table.name]
            for _ in reader.blocks():
                pass
            if reader.facts is None:
                unchecked.append(table.name)
        if unchecked:
            return "without checksums, as SparseOperationKit writes none: " + ", ".join(unchecked)
        return "compared with the checksums of {}".format(_SIDECAR)

    def keys(self, table: Table, first: int, count: int) -> Array:
        """See `Source`."""
        return self._readers[table.name].read(0, first, count).reshape(-1).astype(np.int64)

    def rows(self, table: Table, column: int, first: int, count: int) -> Array:
        """See `Source`."""
        read = functools.partial(self._readers[table.name].read, column + 1)
        if table.has_keys:
            return read(first, count)
        positions, keys = self._runs[table.name].positions(first, count)
        return gathered(read, table.columns[column], positions[np.argsort(keys)])

    def _keys_of(self, stem: str) -> TableReader:
        path = os.path.join(self._folder, stem + _KEY_SUFFIX)
        kind, _, dtype = read_header(path)
        if kind != KEY or "int" not in dtype:
            raise ValueError("{} is no file of keys".format(path))
        return TableReader(self._folder, TableFiles(stem, (TableFile("key", KEY, "", dtype, 1),)))

    def _name(self, stem: str) -> str:
        """The variable's name: as our own file has it, or else as the others are called."""
        facts = self._of_keys[stem].facts
        if facts is not None and isinstance(facts.get("table"), str):
            return str(facts["table"])
        return stem[:-2] if stem.endswith("_0") else stem

    def _stem(self, name: str, known: Dict[str, str]) -> str:
        found = [stem for stem, variable in known.items() if name in (stem, variable)]
        if len(found) != 1:
            raise ValueError(
                "{} has {} tables {!r}; it has {}".format(
                    self._folder,
                    len(found) or "no",
                    name,
                    ", ".join(sorted(known.values())) or "none at all",
                )
            )
        return found[0]

    def _table(self, stem: str, name: str) -> Table:
        of_keys = self._of_keys[stem]
        width = None if of_keys.facts is None else of_keys.facts.get("width")
        others = self._other_files(stem, of_keys.num_rows, width)
        files = TableFiles(stem, (*of_keys.files.files, *others))
        reader = self._readers[name] = TableReader(self._folder, files)
        runs = KeyRuns(reader.num_rows)
        for block in reader.keys():
            runs.add(block)
        self._runs[name] = runs
        try:
            are_all = runs.are_all
        except ValueError as error:
            path = files.path(self._folder, 0)
            raise ValueError("{} {}".format(path, error)) from error
        columns = [
            Column(suffix.split("-")[0] if slot else "", slot, np.dtype(dtype), width)
            for suffix, _, slot, dtype, width in files.files[1:]
        ]
        counters = {} if reader.facts is None else reader.facts.get("counters", {})
        return Table(name, reader.num_rows, tuple(columns), not are_all, counters)

    def _other_files(self, stem: str, num_rows: int, width: Optional[int]) -> List[TableFile]:
        suffixes = sorted(
            name[len(stem) + 1 :]
            for name in os.listdir(self._folder)
            if name.startswith(stem + "-") and name.count("-") == 2
        )
        files = []
        for suffix in ["weight"] + ([] if self._weights_only else suffixes):
            path = os.path.join(self._folder, "{}-{}".format(stem, suffix))
            if not os.path.exists(path):
                raise ValueError("{} is missing".format(path))
            kind, slot, dtype = read_header(path)
            if kind not in (WEIGHT, SLOT) or dtype not in DTYPES.values():
                raise ValueError("{} has kind {} and dtype {}".format(path, kind, dtype))
            size = os.path.getsize(path) - HEADER.size
            row_bytes, rest = divmod(size, num_rows) if num_rows else (0, size)
            columns = row_bytes // np.dtype(dtype).itemsize if num_rows else width
            if rest or not columns:
                raise ValueError(
                    "{} has {} bytes of data, which are not the rows of {} keys".format(
                        path, size, num_rows
                    )
                )
            files.append(TableFile(suffix, kind, slot, dtype, columns))
        return files


class DumpTarget(Target):
    """A new folder of files.

    Args:
      folder: What it will be called.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.abspath(folder)
        self._folder = "{}.{}.tmp".format(self._path, uuid.uuid4().hex[:12])
        self._writers: Dict[str, TableWriter] = {}
        self._tables: List[Table] = []

    def stored(self, table: Table) -> Table:
        """See `Target`."""
        kept = [column for column in table.columns if not column.is_count]
        return table._replace(columns=tuple(stored_column(table.name, one) for one in kept))

    def place(self, table: Table, column: Column) -> str:
        """See `Target`."""
        return "{}-{}".format(file_name_of(table.name + ":0"), suffix_of(column))

    def begin(self, tables: Sequence[Table]) -> None:
        """See `Target`."""
        stems = [file_name_of(table.name + ":0") for table in tables]
        for place, stem in enumerate(stems):
            if stem in stems[:place]:
                raise ValueError(
                    "{!r} and {!r} would both have the files {}-*: rename one with "
                    "--table NAME=NEW_NAME".format(
                        tables[stems.index(stem)].name, tables[place].name, stem
                    )
                )
        os.makedirs(self._folder)
        self._tables = list(tables)
        for table, stem in zip(tables, stems):
            self._writers[table.name] = TableWriter(self._folder, files_of(stem, table.columns))

    def write(self, table: Table, first: int, keys: Array, rows: Sequence[Array]) -> None:
        """See `Target`."""
        self._writers[table.name].append(as_bytes([keys, *rows]))

    def finish(self) -> Source:
        """See `Target`."""
        for table in self._tables:
            writer = self._writers[table.name]
            writer.finish()
            weights = table.columns[0]
            slots = [column.optimizer for column in table.columns if column.is_slot]
            facts = {
                "table": table.name,
                "ranks": 1,
                "num_keys": None if table.has_keys else table.num_rows,
                "width": weights.width,
                "dtype": weights.dtype.name,
                "optimizer": slots[0] if slots else "",
                "counters": dict(table.counters),
            }
            writer.publish(facts)
        return DumpSource(self._folder)

    def publish(self) -> None:
        """See `Target`."""
        os.rename(self._folder, self._path)

    def discard(self) -> None:
        """See `Target`."""
        for writer in self._writers.values():
            writer.discard()
        shutil.rmtree(self._folder, ignore_errors=True)


FORMAT = Format(
    is_at=lambda path: has_file(path, _KEY_SUFFIX),
    source=lambda request: DumpSource(request.sources[0], request.chosen, request.weights_only),
    target=lambda request, source: DumpTarget(request.target),
    keeps_keys=True,
)
