"""Tables of low precision in a served graph: which can be, and how far off they are."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterator, List, Sequence, Set

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.reporting.tables import bytes_text, counted, first_of
from graph_opt.serving.mapped_variables import MappedVariable, is_table_input
from graph_opt.serving.variable_rows import VariableRows, as_stored
from graph_opt.table_files.low_precision import float_rows, low_precision_shape
from graph_opt.table_files.mapped_files import TableHead
from graph_opt.table_files.row_blocks import blocks_of

_NAMED = 3


class LowPrecisionTables:
    """The tables of a graph that are stored in another dtype than float32.

    Args:
      view: A graph with fused lookups.
      needed: The nodes that requests run.
      variables: Its variables that can be read from files.
      others: Why each other one cannot, by its name.
      dtype: float16, bfloat16 or int8.

    Attributes:
      variables: All of the variables, those tables as they are stored.
      names: Of these tables.
    """

    def __init__(
        self,
        view: GraphView,
        needed: Set[str],
        variables: Sequence[MappedVariable],
        others: Dict[str, str],
        dtype: Any,
    ) -> None:
        self.dtype = tf.as_dtype(dtype)
        self.names: List[str] = []
        self.variables: List[MappedVariable] = []
        self._error = 0.0
        self._kept: Dict[str, List[str]] = {}
        self._bytes = [0, 0]
        for name, why in others.items():
            if _is_looked_up(view, needed, name):
                self._keep(name, why)
        for one in variables:
            self.variables.append(self._stored(view, needed, one))

    def rows(self, rows: VariableRows, head: TableHead) -> Iterator[np.ndarray]:
        """All rows of one of these tables, as they are stored; notes how far off they are."""
        for first, count in blocks_of(head.num_rows, 4 * head.row_bytes):
            values = rows.values(first, count)
            stored = as_stored(values, head, range(first, first + count))
            self._error = max(self._error, _error(values, float_rows(stored, values.shape)))
            self._bytes[0] += values.nbytes
            self._bytes[1] += stored.nbytes
            yield stored

    def describe(self) -> List[str]:
        """What an export says of them, a line each."""
        before, after = map(bytes_text, self._bytes)
        lines = [
            "{} stored as {}: {} in place of {}; a value is off by at most {:.2g} % of the largest "
            "of its row".format(
                counted(len(self.names), "table"), self.dtype.name, after, before, 100 * self._error
            )
        ]
        return lines + self.kept()

    def kept(self) -> List[str]:
        """Which tables stay as they are, and why, a line for each reason."""
        lines = []
        for why, names in self._kept.items():
            stay = "stays" if len(names) == 1 else "stay"
            lines.append("{} {} as before: {}".format(first_of(names, _NAMED), stay, why))
        return lines

    def _stored(self, view: GraphView, needed: Set[str], one: MappedVariable) -> MappedVariable:
        if not _is_looked_up(view, needed, one.head.name):
            return one
        shape = low_precision_shape(one.head.shape, self.dtype)
        stored = TableHead(one.head.name, self.dtype, shape)
        why = _why_not(view, needed, one.head, stored)
        if why:
            self._keep(one.head.name, why)
            return one
        self.names.append(one.head.name)
        return one._replace(head=stored)

    def _keep(self, name: str, why: str) -> None:
        self._kept.setdefault(why, []).append(name)


@dataclasses.dataclass(frozen=True)
class _Reader:
    node: str
    op: str
    is_lookup: bool


def _readers(view: GraphView, needed: Set[str], name: str) -> List[_Reader]:
    uses = [use for _, use in view.node_uses(name) if use.consumer in needed]
    return [
        _Reader(use.consumer, view.op(use.consumer), is_table_input(view, use.consumer, use.slot))
        for use in uses
    ]


def _is_looked_up(view: GraphView, needed: Set[str], name: str) -> bool:
    return any(reader.is_lookup for reader in _readers(view, needed, name))


def _why_not(view: GraphView, needed: Set[str], head: TableHead, stored: TableHead) -> str:
    """Why a table that lookups read stays as it is; empty if it does not."""
    readers = _readers(view, needed, head.name)
    for reader in readers:
        if not reader.is_lookup:
            return "{} ({}) reads it, too".format(reader.node, reader.op)
        if "GPU" in view.device(reader.node):
            return "it is looked up on {}".format(view.device(reader.node))
    if head.dtype != tf.float32:
        return "it is of {}".format(head.dtype.name)
    if stored.row_bytes >= head.row_bytes:
        return "a row takes {} bytes, and {} as {}".format(
            head.row_bytes, stored.row_bytes, stored.dtype.name
        )
    return ""


def _error(values: np.ndarray, stored: np.ndarray) -> float:
    """The largest difference of a number, as a part of the largest of its row."""
    if not values.size:
        return 0.0
    rows = values.reshape(len(values), -1).astype(np.float64)
    apart = np.abs(stored.reshape(rows.shape) - rows).max(axis=1)
    largest = np.abs(rows).max(axis=1)
    return float((apart / np.where(largest == 0.0, 1.0, largest)).max())
