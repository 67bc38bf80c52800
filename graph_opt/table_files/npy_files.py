"""Tables as one `.npy` file each, which `DistributedEmbedding.set_weights` takes."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from typing import Any, BinaryIO, Dict, List, Sequence

import numpy as np

from graph_opt.table_files.checksums import Checksums, bytes_of, crc32, write_json
from graph_opt.table_files.format import Format, has_file
from graph_opt.table_files.npy_arrays import npy_array
from graph_opt.table_files.tables import Array, Choice, Column, Source, Table, Target

_ENDING = ".npy"
_SIDECAR = "graph_opt.json"
_CHECKED_BYTES = 16 << 20
_VERSION = 1


class NpySource(Source):
    """Tables of a folder, or of a single file.

    Args:
      path: The folder, or the file.
      chosen: By the names of the files, without `.npy`, or as the folder's own file has them; none
        for all.

    Raises:
      ValueError: There is no such table, or a file is none.
    """

    def __init__(self, path: str, chosen: Sequence[Choice] = ()) -> None:
        self._folder, names = os.path.split(path)[0], [os.path.basename(path)]
        if os.path.isdir(path):
            self._folder = path
            names = sorted(name for name in os.listdir(path) if name.endswith(_ENDING))
        self._facts = self._read_facts()
        if self._facts and os.path.isdir(path):
            names = list(self._facts)  # in the order of the layer's tables
        known = {self._name(file): file for file in names}
        pairs = [(file, name) for name, file in known.items()]
        if chosen:
            pairs = [(self._file(choice.name, known), choice.new_name) for choice in chosen]
        self._files = {name: file for file, name in pairs}
        self.tables: List[Table] = [self._table(file, name) for file, name in pairs]
        self.left_out = [name for name, file in known.items() if file not in dict(pairs)]

    def check(self) -> str:
        """See `Source`."""
        unchecked = []
        for table in self.tables:
            facts = self._facts.get(self._files[table.name])
            if facts is None:
                unchecked.append(table.name)
                continue
            size, path = int(facts["checked_rows"]), self._path(table)
            for place, first in enumerate(range(0, table.num_rows, size)):
                rows = self.rows(table, 0, first, min(size, table.num_rows - first))
                sums = facts["crc32"]
                if place >= len(sums) or crc32(rows) != sums[place]:
                    raise ValueError(
                        "{} is damaged, or was written after {}: delete the latter if so".format(
                            path, os.path.join(self._folder, _SIDECAR)
                        )
                    )
        if unchecked:
            return "without checksums, as .npy files have none: " + ", ".join(unchecked)
        return "compared with the checksums of {}".format(_SIDECAR)

    def keys(self, table: Table, first: int, count: int) -> Array:
        """See `Source`."""
        raise AssertionError("these tables have no keys")

    def rows(self, table: Table, column: int, first: int, count: int) -> Array:
        """See `Source`."""
        return np.array(self._mapped(self._path(table))[first : first + count])

    def _name(self, file: str) -> str:
        return str(self._facts.get(file, {}).get("name", file[: -len(_ENDING)]))

    def _path(self, table: Table) -> str:
        return os.path.join(self._folder, self._files[table.name])

    def _mapped(self, path: str) -> Array:
        mapped = npy_array(path, mapped=True)
        if mapped.ndim != 2 or mapped.dtype.kind not in "fiu":
            raise ValueError(
                "{} has shape {} and dtype {}; a table is a matrix of numbers".format(
                    path, list(mapped.shape), mapped.dtype
                )
            )
        return mapped

    def _table(self, file: str, name: str) -> Table:
        mapped = self._mapped(os.path.join(self._folder, file))
        dtype = mapped.dtype.newbyteorder("=")
        column = Column("", "", dtype, mapped.shape[1])
        return Table(name, mapped.shape[0], (column,), False, {})

    def _file(self, name: str, known: Dict[str, str]) -> str:
        if name in known:
            return known[name]
        if name + _ENDING in known.values():
            return name + _ENDING
        raise ValueError(
            "{} has no table {!r}; it has {}".format(
                self._folder or ".", name, ", ".join(known) or "none at all"
            )
        )

    def _read_facts(self) -> Dict[str, Any]:
        path = os.path.join(self._folder, _SIDECAR)
        try:
            with open(path, encoding="utf-8") as opened:
                facts = json.load(opened)
            if facts["version"] != _VERSION:
                raise ValueError("another version")
            return {_file_of(one): one for one in facts["tables"]}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError("{} is damaged: {}".format(path, error)) from error


def _file_of(facts: Dict[str, Any]) -> str:
    """Which file in the folder is described; raises KeyError or TypeError for what is missing."""
    file, sums = facts["file"], facts["crc32"]
    if os.path.basename(file) != file or not isinstance(sums, list):
        raise ValueError("{!r} has no checksums, or is elsewhere".format(file))
    if not isinstance(facts["checked_rows"], int) or facts["checked_rows"] < 1:
        raise ValueError("{!r} has checksums of no rows".format(file))
    return str(file)


class NpyTarget(Target):
    """A new folder of `.npy` files.

    Args:
      folder: What it will be called.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.abspath(folder)
        self._folder = "{}.{}.tmp".format(self._path, uuid.uuid4().hex[:12])
        self._open: Dict[str, BinaryIO] = {}
        self._facts: Dict[str, Dict[str, Any]] = {}
        self._sums: Dict[str, Checksums] = {}

    def stored(self, table: Table) -> Table:
        """See `Target`."""
        if table.has_keys:
            raise ValueError(
                "{!r} has rows of keys other than 0, 1, ..., {}; .npy files have no keys".format(
                    table.name, table.num_rows - 1
                )
            )
        column = table.columns[0]
        if column.dtype.name == "bfloat16":
            column = column._replace(dtype=np.dtype(np.float32))
        return table._replace(columns=(column,), counters={})

    def place(self, table: Table, column: Column) -> str:
        """See `Target`."""
        return table.name.replace("/", "_") + _ENDING

    def begin(self, tables: Sequence[Table]) -> None:
        """See `Target`."""
        os.makedirs(self._folder)
        for table in tables:
            column = table.columns[0]
            file = self.place(table, column)
            if file in {facts["file"] for facts in self._facts.values()}:
                raise ValueError(
                    "two tables would have the file {}: rename one with "
                    "--table NAME=NEW_NAME".format(file)
                )
            self._open[table.name] = open(os.path.join(self._folder, file), "wb")
            np.lib.format.write_array_header_1_0(
                self._open[table.name],
                {
                    "descr": np.lib.format.dtype_to_descr(column.dtype),
                    "fortran_order": False,
                    "shape": (table.num_rows, column.width),
                },
            )
            checked_rows = max(1, _CHECKED_BYTES // column.row_bytes)
            self._sums[table.name] = Checksums(checked_rows * column.row_bytes)
            self._facts[table.name] = {
                "name": table.name,
                "file": file,
                "rows": table.num_rows,
                "width": column.width,
                "dtype": column.dtype.name,
                "checked_rows": checked_rows,
                "crc32": self._sums[table.name].values,
            }

    def write(self, table: Table, first: int, keys: Array, rows: Sequence[Array]) -> None:
        """See `Target`."""
        data = bytes_of(rows[0])
        self._open[table.name].write(data)
        self._sums[table.name].add(data)

    def finish(self) -> Source:
        """See `Target`."""
        for opened in self._open.values():
            opened.flush()
            os.fsync(opened.fileno())
            opened.close()
        facts = {"version": _VERSION, "tables": list(self._facts.values())}
        write_json(os.path.join(self._folder, _SIDECAR), facts)
        return NpySource(self._folder)

    def publish(self) -> None:
        """See `Target`."""
        os.rename(self._folder, self._path)

    def discard(self) -> None:
        """See `Target`."""
        for opened in self._open.values():
            opened.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _is_at(path: str) -> bool:
    return has_file(path, _ENDING) or (path.endswith(_ENDING) and not os.path.isdir(path))


FORMAT = Format(
    is_at=_is_at,
    source=lambda request: NpySource(request.sources[0], request.chosen),
    target=lambda request, source: NpyTarget(request.target),
)
