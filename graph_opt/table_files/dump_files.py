"""Tables in the files of SparseOperationKit, which `sok.dump` writes."""

from __future__ import annotations

import os
import shutil
import uuid
from typing import Dict, List, Optional, Sequence

import numpy as np

from graph_opt.table_files.key_runs import KeyRuns
from graph_opt.table_files.sok_files import (
    DTYPES,
    HEADER_BYTES,
    KEY,
    SLOT,
    WEIGHT,
    TableFile,
    TableFiles,
    TableReader,
    TableWriter,
    file_name_of,
    read_header,
)
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
        self._files: Dict[str, TableFiles] = {}
        self._readers: Dict[str, TableReader] = {}
        self._runs: Dict[str, KeyRuns] = {}
        stems = sorted(
            name[: -len(_KEY_SUFFIX)]
            for name in os.listdir(folder)
            if name.endswith(_KEY_SUFFIX) and "-" not in name[: -len(_KEY_SUFFIX)]
        )
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
        path = self._files[table.name].path(self._folder, 0)
        dtype = np.dtype(read_header(path)[2])
        offset = HEADER_BYTES + first * dtype.itemsize
        return np.fromfile(path, dtype, count, offset=offset).astype(np.int64)

    def rows(self, table: Table, column: int, first: int, count: int) -> Array:
        """See `Source`."""
        wanted = table.columns[column]
        path = self._files[table.name].path(self._folder, column + 1)
        if table.has_keys:
            size = wanted.row_bytes
            found = np.fromfile(
                path, wanted.dtype, count * wanted.width, offset=HEADER_BYTES + first * size
            )
            return found.reshape(count, wanted.width)
        positions, keys = self._runs[table.name].positions(first, count)
        shape = (table.num_rows, wanted.width)
        mapped = np.memmap(path, wanted.dtype, "r", HEADER_BYTES, shape)
        rows = np.empty([count, wanted.width], wanted.dtype)
        rows[keys - first] = mapped[positions]
        return rows

    def _name(self, stem: str) -> str:
        """The variable's name: as our own file has it, or else as the others are called."""
        facts = TableReader(self._folder, TableFiles(stem, (_key_file(self._folder, stem),))).facts
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
        keys = _key_file(self._folder, stem)
        first = TableReader(self._folder, TableFiles(stem, (keys,)))
        known = None if first.facts is None else first.facts.get("width")
        files = [keys] + self._other_files(stem, first.num_rows, known)
        self._files[name] = TableFiles(stem, tuple(files))
        reader = TableReader(self._folder, self._files[name])
        self._readers[name] = reader
        runs = KeyRuns(reader.num_rows)
        for block in reader.keys():
            runs.add(block)
        self._runs[name] = runs
        try:
            are_all = runs.are_all
        except ValueError as error:
            path = self._files[name].path(self._folder, 0)
            raise ValueError("{} {}".format(path, error)) from error
        columns = [
            Column(one.suffix.split("-")[0] if one.slot else "", one.slot, one.dtype, one.width)
            for one in files[1:]
        ]
        columns = [column._replace(dtype=np.dtype(column.dtype)) for column in columns]
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
            size = os.path.getsize(path) - HEADER_BYTES
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
        columns = []
        for column in table.columns:
            if column.is_count:
                continue
            dtype = np.dtype(np.float32) if column.dtype.name == "bfloat16" else column.dtype
            if dtype.name not in DTYPES.values():
                raise ValueError(
                    "{!r} has dtype {}; files of tables have one of {}".format(
                        table.name, dtype.name, ", ".join(DTYPES.values())
                    )
                )
            columns.append(column._replace(dtype=dtype))
        return table._replace(columns=tuple(columns))

    def place(self, table: Table, column: Column) -> str:
        """See `Target`."""
        return "{}-{}".format(file_name_of(table.name + ":0"), _suffix(column))

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
            files = [TableFile("key", KEY, "", "int64", 1)]
            for column in table.columns:
                kind = SLOT if column.is_slot else WEIGHT
                files.append(
                    TableFile(_suffix(column), kind, column.slot, column.dtype.name, column.width)
                )
            self._writers[table.name] = TableWriter(self._folder, TableFiles(stem, tuple(files)))

    def write(self, table: Table, first: int, keys: Array, rows: Sequence[Array]) -> None:
        """See `Target`."""
        arrays = [np.ascontiguousarray(one).reshape(-1).view(np.uint8) for one in [keys, *rows]]
        self._writers[table.name].append(np.concatenate(arrays))

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


def _suffix(column: Column) -> str:
    return "{}-{}".format(column.optimizer, column.slot) if column.is_slot else "weight"


def _key_file(folder: str, stem: str) -> TableFile:
    kind, _, dtype = read_header(os.path.join(folder, stem + _KEY_SUFFIX))
    if kind != KEY or "int" not in dtype:
        raise ValueError("{} is no file of keys".format(os.path.join(folder, stem + _KEY_SUFFIX)))
    return TableFile("key", KEY, "", dtype, 1)
