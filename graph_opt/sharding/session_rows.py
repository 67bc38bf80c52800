"""Rows of divided tables in one session."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.callables import is_closed
from graph_opt.compat.graph_growth import operations_from
from graph_opt.sharding.array_steps import ArraySteps
from graph_opt.sharding.early_writes import delay_early_writes, writes_to
from graph_opt.sharding.table_variables import TableVariables, table_variables
from graph_opt.sharding.whole_tables import Place


class SessionRows:
    """What a session of this rank has of divided tables.

    Args:
      session: Whose graph has such tables.
    """

    def __init__(self, session: Any) -> None:
        self.session = session
        self.steps = ArraySteps(session)
        self._prepared: TableVariables = TableVariables({}, set())
        self._version = -1
        self._seen = 0

    @property
    def variables(self) -> TableVariables:
        """Of tables and their slots, as of the last `prepare`."""
        return self._prepared

    def prepare(self) -> None:
        """Adds the nodes that read rows, so that other threads need not change the graph."""
        graph = self.session.graph
        if graph.version == self._version:
            return
        variables = table_variables(graph)
        for name, parts in variables.parts.items():
            if name not in self._prepared.parts:
                for number, part in enumerate(parts):
                    self._prepare(Place(name, number), part.rows)
        self._delay_early_writes(variables)
        self._prepared = variables
        self._version = graph.version

    def read(self, place: Place, first: int, count: int) -> Tuple[np.ndarray, np.ndarray]:
        """Keys and rows; see `KeyedRows.block`."""
        rows = self._rows(place)
        keys, values = self.steps.run(_key("rows", place), rows.block, *_span(first, count))
        return keys, values

    def count(self, place: Place) -> int:
        """How many rows this rank has."""
        rows = self._rows(place)
        if rows.fixed_rows is not None:
            return rows.fixed_rows
        return int(self.steps.run(_key("count", place), rows.num_rows))

    def has_values(self, place: Place) -> bool:
        """Whether the rows are known, after the first `prepare`, and have been initialized."""
        if place.variable not in self._prepared.parts:
            return False
        try:
            self.read(place, 0, 0)
        except tf.errors.OpError as error:
            if error.error_code in (tf.errors.FAILED_PRECONDITION, tf.errors.NOT_FOUND):
                return False
            raise
        return True

    def is_closed(self) -> bool:
        """Whether the session is."""
        return is_closed(self.session)

    def _delay_early_writes(self, variables: TableVariables) -> None:
        new = operations_from(self.session.graph, self._seen)
        if any(writes_to(one, variables.parts.keys()) for one in new):
            delay_early_writes(self.session.graph, variables.parts.keys())
        self._seen += len(new)

    def _rows(self, place: Place) -> Any:
        return self._prepared.parts[place.variable][place.number].rows

    def _prepare(self, place: Place, rows: Any) -> None:
        self.steps.prepare(_key("rows", place), rows.block, *_span(0, 0))
        if rows.fixed_rows is None:
            self.steps.prepare(_key("count", place), rows.num_rows)


def _span(first: int, count: int) -> Tuple[np.int64, np.int64]:
    return np.int64(first), np.int64(count)


def _key(what: str, place: Place) -> Tuple[str, Place]:
    return what, place
