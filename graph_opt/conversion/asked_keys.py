"""Tables whose rows are those of keys that were asked for, by `--rows` and `--keys`.

a dynamic table         row i becomes that of key i of the list, for formats that number rows
a table without keys    its row i becomes that of key i of the list, for formats with keys
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence

import numpy as np

from graph_opt.table_files.npy_arrays import npy_array
from graph_opt.table_files.ordered_rows import all_keys, gathered
from graph_opt.table_files.slot_names import initial_value
from graph_opt.table_files.tables import Array, Source, Table, Waiting

ALL_TABLES = ""


def asked_keys(rows: Sequence[str], keys: Sequence[str]) -> Dict[str, Array]:
    """The keys that rows shall be of, by name of the table; `ALL_TABLES` for all others.

    Args:
      rows: Values of `--rows`: `N` or `NAME=N`.
      keys: Values of `--keys`: `FILE` or `NAME=FILE`.

    Raises:
      ValueError: A number or a file is none, or a table has two.
    """
    found: Dict[str, Array] = {}
    for option, texts in (("--rows", rows), ("--keys", keys)):
        for text in texts:
            name, _, value = text.rpartition("=")
            if name in found:
                raise ValueError(
                    "{} {}: there are rows or keys of {} already".format(
                        option, text, repr(name) if name else "all tables"
                    )
                )
            found[name] = _keys_in(value) if option == "--keys" else _numbers(option, value)
    return found


class OfAskedKeys(Source):
    """Tables of another source, with the rows of other keys.

    Args:
      source: The source.
      asked: See `asked_keys`.

    Raises:
      ValueError: A table is not there, or cannot have those keys.
    """

    def __init__(self, source: Source, asked: Mapping[str, Array]) -> None:
        self._source = source
        self._before = {table.name: table for table in source.tables}
        unknown = sorted(set(asked) - set(self._before) - {ALL_TABLES})
        if unknown:
            raise ValueError(
                "there is no table {!r}; there are {}".format(unknown[0], ", ".join(self._before))
            )
        self._keys: Dict[str, Array] = {}
        self._places: Dict[str, Array] = {}
        self._lines: List[str] = []
        self.tables = [self._table(table, asked) for table in source.tables]
        self.left_out = source.left_out
        self.used_names = source.used_names

    def check(self) -> str:
        """See `Source`."""
        return "; ".join([self._source.check(), *self._lines])

    def keys(self, table: Table, first: int, count: int) -> Array:
        """See `Source`."""
        if table.name in self._keys:
            return self._keys[table.name][first : first + count]
        return self._source.keys(self._before[table.name], first, count)

    def rows(self, table: Table, column: int, first: int, count: int) -> Array:
        """See `Source`."""
        before, wanted = self._before[table.name], table.columns[column]
        if table.name not in self._places:
            return self._source.rows(before, column, first, count)

        at = before.columns.index(wanted)  # counts of rows are left out

        def read(begin: int, size: int) -> Array:
            return self._source.rows(before, at, begin, size)

        places = self._places[table.name][first : first + count]
        rows = np.full(
            [count, wanted.width], initial_value(wanted.optimizer, wanted.slot), wanted.dtype
        )
        if not wanted.slot:
            rows = self._source.default_rows(before, self.keys(table, first, count))
        there = places >= 0
        rows[there] = gathered(read, wanted, places[there])
        return rows

    def is_dynamic(self, table: Table) -> bool:
        """See `Source`."""
        return table.name not in self._keys and self._source.is_dynamic(table)

    def unnumbered_key(self, table: Table) -> Optional[int]:
        """See `Source`."""
        return None if table.name in self._keys else self._source.unnumbered_key(table)

    def waiting(self, table: Table) -> Waiting:
        """See `Source`."""
        return self._source.waiting(self._before[table.name])

    def default_values(self, table: Table, part: int) -> Array:
        """See `Source`."""
        return self._source.default_values(self._before[table.name], part)

    def _table(self, table: Table, asked: Mapping[str, Array]) -> Table:
        keys = asked.get(table.name, asked.get(ALL_TABLES))
        if keys is None:
            return table
        self._keys[table.name] = keys
        if table.has_keys or self._source.is_dynamic(table):
            self._places[table.name] = self._places_of(table, keys)
            columns = tuple(column for column in table.columns if not column.is_count)
            return table._replace(num_rows=len(keys), has_keys=False, columns=columns)
        if len(keys) != table.num_rows:
            raise ValueError(
                "{!r} has {} rows, for which there are {} keys".format(
                    table.name, table.num_rows, len(keys)
                )
            )
        return table._replace(has_keys=True)

    def _places_of(self, table: Table, keys: Array) -> Array:
        """Where the source has the row of each key; -1 for nowhere."""
        found = all_keys(self._source, table)
        if not len(found):
            return np.full([len(keys)], -1)
        order = np.argsort(found, kind="stable")
        nearest = order[np.minimum(np.searchsorted(found[order], keys), len(found) - 1)]
        places = np.where(found[nearest] == keys, nearest, -1)
        missing, unused = int((places < 0).sum()), len(found) - int((places >= 0).sum())
        line = "of the {} keys of {!r}, {} have no row and get what new ones start with"
        self._lines.append(line.format(len(keys), table.name, missing))
        self._lines.append(
            "{} rows of {!r} are of other keys, and left out".format(unused, table.name)
        )
        return places


def _numbers(option: str, text: str) -> Array:
    if not text.isdigit() or not int(text):
        raise ValueError("{} {!r}: need a number of rows, 1 or more".format(option, text))
    return np.arange(int(text), dtype=np.int64)


def _keys_in(path: str) -> Array:
    """Keys of a `.npy` file, or of a text with one in each line."""
    if path.endswith(".npy"):
        keys = npy_array(path)
        if keys.ndim != 1 or keys.dtype.kind not in "iu":
            raise ValueError(
                "{} has shape {} and dtype {}; keys are integers, [n]".format(
                    path, list(keys.shape), keys.dtype
                )
            )
        keys = keys.astype(np.int64)
    else:
        with open(path, encoding="utf-8") as opened:
            keys = np.array([_key(path, *line) for line in enumerate(opened, 1)], np.int64)
    ascending = np.sort(keys)
    twice = np.flatnonzero(ascending[1:] == ascending[:-1])
    if len(twice):
        raise ValueError("{} has key {} twice".format(path, ascending[twice[0]]))
    if not len(keys):
        raise ValueError("{} has no keys".format(path))
    return keys


def _key(path: str, number: int, line: str) -> int:
    try:
        key = int(line)
    except ValueError:
        raise ValueError(
            "line {} of {} is {!r}; need one integer in each line".format(
                number, path, line.rstrip("\n")
            )
        ) from None
    if not -(2**63) <= key < 2**63:
        raise ValueError("line {} of {}: {} is no int64".format(number, path, key))
    return key
