"""Rows of sharded tables in one session."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.compat.callables import is_closed
from graph_opt.compat.graph_growth import operations_from
from graph_opt.sharding.early_writes import delay_early_writes, writes_to
from graph_opt.sharding.rank_shares import RankShare, table_shares
from graph_opt.sharding.table_variables import Parts, table_variables
from graph_opt.sharding.whole_tables import Place


class SessionRows:
    """What a session of this rank has of sharded tables.

    Args:
      session: Whose graph has such tables.
    """

    def __init__(self, session: Any) -> None:
        self.session = session
        self.steps = ArraySteps(session)
        self._prepared: Parts = {}
        self._version = -1
        self._seen = 0

    @property
    def variables(self) -> Parts:
        """Tables and their slots, as of the last `prepare`."""
        return self._prepared

    def prepare(self) -> None:
        """Adds the nodes that read rows, so that other threads need not change the graph."""
        graph = self.session.graph
        if graph.version == self._version:
            return
        variables = table_variables(graph)
        for name, parts in variables.items():
            if name not in self._prepared:
                for number, part in enumerate(parts):
                    self._prepare(Place(name, number), part.rows)
        self._delay_early_writes(variables)
        self.prepare_shares([one.usual_share for one in table_shares(graph).values()])
        self._prepared = variables
        self._version = graph.version

    def read(self, place: Place, first: int, count: int) -> Tuple[np.ndarray, np.ndarray]:
        """Keys and rows; see `KeyedRows.block`."""
        rows = self._rows(place)
        keys, values = self.steps.run(_key("rows", place), rows.block, *_span(first, count))
        return keys, values

    def has_values(self, place: Place) -> bool:
        """Whether the rows are known, after the first `prepare`, and have been initialized."""
        if place.variable not in self._prepared:
            return False
        try:
            self.read(place, 0, 0)
        except tf.errors.OpError as error:
            if error.error_code in (tf.errors.FAILED_PRECONDITION, tf.errors.NOT_FOUND):
                return False
            raise
        return True

    def can_save(self, shares: Sequence[RankShare]) -> bool:
        """Whether the graph has the nodes that write shares."""
        return all(self.steps.has(("save share", share)) for share in shares)

    def prepare_shares(self, shares: Sequence[RankShare]) -> None:
        """Adds the nodes that write shares."""
        for share in shares:
            self.steps.prepare(("save share", share), self._saved(share), "")
            self.steps.prepare(("share is there", share), self._is_initialized(share))

    def has_shares(self, shares: Sequence[RankShare]) -> bool:
        """Whether tables and slots are known, and have been initialized."""
        tables = table_shares(self.session.graph)
        return all(
            share.table in tables
            and self.steps.run(("share is there", share), self._is_initialized(share))
            for share in shares
        )

    def save_share(self, share: RankShare, prefix: str) -> None:
        """Writes what this rank has of a table, as a checkpoint of its own."""
        self.steps.run(("save share", share), self._saved(share), prefix)

    def restore_share(self, share: RankShare, prefix: str) -> None:
        """Reads what this rank has of a table from a checkpoint of all ranks."""
        table = table_shares(self.session.graph)[share.table]
        self.steps.run(("restore share", share), lambda of: table.restore(of, share), prefix)

    def _saved(self, share: RankShare) -> Any:
        return lambda prefix: table_shares(self.session.graph)[share.table].save(prefix, share)

    def _is_initialized(self, share: RankShare) -> Any:
        table = table_shares(self.session.graph)[share.table]
        return lambda: table.is_initialized(share)

    def is_closed(self) -> bool:
        """Whether the session is."""
        return is_closed(self.session)

    def _delay_early_writes(self, variables: Parts) -> None:
        new = operations_from(self.session.graph, self._seen)
        if any(writes_to(one, variables.keys()) for one in new):
            delay_early_writes(self.session.graph, variables.keys())
        self._seen += len(new)

    def _rows(self, place: Place) -> Any:
        return self._prepared[place.variable][place.number].rows

    def _prepare(self, place: Place, rows: Any) -> None:
        self.steps.prepare(_key("rows", place), rows.block, *_span(0, 0))


def _span(first: int, count: int) -> Tuple[np.int64, np.int64]:
    return np.int64(first), np.int64(count)


def _key(what: str, place: Place) -> Tuple[str, Place]:
    return what, place
