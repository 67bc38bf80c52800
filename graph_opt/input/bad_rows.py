"""Which line of which file an error of a CSV parser is about.

The parser only knows the place of a record in its batch, and batches are shuffled. So the files
that the graph reads are searched for lines with what the error describes.
"""

from __future__ import annotations

import csv
import itertools
import re
import time
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Set, Tuple

from graph_opt.compat import tf

_READERS = frozenset(("TextLineDataset", "CSVDataset", "CSVDatasetV2", "TextLineReaderV2"))
_PARSER = "DecodeCSV"
_COUNT = re.compile(r"Expect (\d+) fields but have (\d+|more) in record")
_INVALID = re.compile(r"Field (\d+) in record(?: \d+)? is not a valid \w+: (.*)")
_MISSING = re.compile(r"Field (\d+) is required but missing in record")
_MOST_SECONDS = 10.0
_MOST_LINES = 3
_MOST_NAMES = 20000


class _Format(NamedTuple):
    """How a parser reads a line: DecodeCSV's attributes."""

    delimiter: str = ","
    quotes: bool = True
    missing: str = ""
    columns: Tuple[int, ...] = ()

    def fields(self, line: str) -> List[str]:
        """The fields of a line, all of them."""
        if not self.quotes:
            return line.split(self.delimiter)
        return next(csv.reader([line], delimiter=self.delimiter), [])

    def column(self, number: int) -> int:
        """The place in a line of what the parser calls field `number`."""
        return self.columns[number] if number < len(self.columns) else number


_IsBad = Callable[[_Format, List[str]], bool]


def place_of_bad_row(graph: Any, message: str) -> str:
    """Where the record of an error is, such as `line 57 of day_0.csv`; "" if that is not known.

    Args:
      graph: The graph whose step failed, which reads text files of constant names.
      message: Of the error.
    """
    is_bad = _predicate(message)
    if is_bad is None:
        return ""
    nodes = list(_nodes(graph.as_graph_def()))
    if not any(node.op in _READERS for node in nodes):
        return ""
    formats = [_format_of(node) for node in nodes if node.op == _PARSER] or [_Format()]
    lines = _bad_lines(_files(nodes), set(formats), is_bad)
    try:
        found = list(itertools.islice(lines, _MOST_LINES))
    except (csv.Error, tf.errors.OpError):  # The error of the step is the one that matters.
        return ""
    return " or ".join("line {} of {}".format(number, name) for name, number in found)


def _predicate(message: str) -> Optional[_IsBad]:
    """Whether the fields of a line are those that an error is about."""
    count, invalid, missing = (one.search(message) for one in (_COUNT, _INVALID, _MISSING))
    if count:
        wanted, length = int(count.group(1)), count.group(2)
        if length == "more":
            return lambda of, fields: len(fields) > wanted
        return lambda of, fields: len(fields) == int(length)
    if invalid:
        field, text = int(invalid.group(1)), invalid.group(2)
        return lambda of, fields: _field(of, fields, field) == text
    if missing:
        absent = int(missing.group(1))
        return lambda of, fields: _field(of, fields, absent) in ("", of.missing)
    return None


def _field(of: _Format, fields: List[str], number: int) -> Optional[str]:
    column = of.column(number)
    return fields[column] if column < len(fields) else None


def _bad_lines(
    files: List[str], formats: Set[_Format], is_bad: _IsBad
) -> Iterator[Tuple[str, int]]:
    """The bad lines of files: (file, line number from 1)."""
    end = time.monotonic() + _MOST_SECONDS
    kinds = list(itertools.product(files, formats))
    for name, of in kinds:
        found = []
        for number, line in enumerate(_lines(name), 1):
            if number % 1000 == 0 and time.monotonic() > end:
                return
            if is_bad(of, of.fields(line)):
                found.append((name, number))
            if len(found) == number == _MOST_LINES and len(kinds) > 1:
                found = []  # A file of another kind, which another parser reads.
                break
            if len(found) == _MOST_LINES:
                break
        yield from found


def _lines(name: str) -> Iterator[str]:
    with tf.io.gfile.GFile(name, "rb") as file:
        for line in file:
            yield line.decode("utf-8", "replace").rstrip("\r\n")


def _nodes(graph_def: Any) -> Iterator[Any]:
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def _files(nodes: List[Any]) -> List[str]:
    """The text files that constants of a graph name."""
    names = dict.fromkeys(
        name.decode("utf-8", "replace")
        for node in nodes
        if node.op == "Const"
        for name in node.attr["value"].tensor.string_val[:_MOST_NAMES]
    )
    found = [tf.io.gfile.glob(name) if "*" in name else [name] for name in names if name]
    return [name for names in found for name in names if _is_file(name)]


def _is_file(name: str) -> bool:
    try:
        return bool(tf.io.gfile.exists(name)) and not tf.io.gfile.isdir(name)
    except (tf.errors.OpError, UnicodeError, ValueError):
        return False


def _format_of(node: Any) -> _Format:
    attributes = node.attr
    return _Format(
        delimiter=attributes["field_delim"].s.decode() or ",",
        quotes=attributes["use_quote_delim"].b,
        missing=attributes["na_value"].s.decode(),
        columns=tuple(attributes["select_cols"].list.i),
    )
