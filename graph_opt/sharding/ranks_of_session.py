"""Rows of all ranks, for the rank that saves."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from graph_opt.sharding.held_sessions import HeldSession
from graph_opt.sharding.rank_shares import RankShare, share_prefix
from graph_opt.sharding.restored_rows import Restored
from graph_opt.sharding.row_server import AskedRanks, Head
from graph_opt.sharding.row_service import ROWS, SHARES, RowService
from graph_opt.sharding.session_rows import SessionRows
from graph_opt.sharding.share_files import bring_files, write_shares
from graph_opt.sharding.whole_tables import (
    Column,
    Place,
    RowsOfRanks,
    WholeTable,
    whole_tables,
)
from graph_opt.table_files.checkpoint_rows import CheckpointRows


class RanksOfSession(RowsOfRanks):
    """Rows of all ranks: those of this one in its session, others as it asks for them.

    Args:
      rows: Of this rank.
      held: Its session, as others know it; None if they know none.
      service: What serves its rows; None if it is alone.
      asked: Connections to the others, which are closed in the end.
    """

    def __init__(
        self,
        rows: SessionRows,
        held: Optional[HeldSession],
        service: Optional[RowService],
        asked: Optional[AskedRanks],
    ) -> None:
        self._rows = rows
        self._service = service
        self._asked = asked
        self._rank = 0 if service is None else service.rank
        self.size = 1 if service is None else service.size
        self._at: List[int] = []
        self._restored: Dict[Place, Tuple[Any, WholeTable]] = {}
        self._restored_here: List[Restored] = [] if held is None else list(held.restored)
        if service is not None and held is not None:
            self._at = list(service.sessions.moment(held))
            self._find_restored(held)

    def __enter__(self) -> RanksOfSession:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._asked is not None:
            self._asked.__exit__()

    def read(
        self, table: WholeTable, column: Column, keys: Mapping[int, np.ndarray]
    ) -> Dict[int, np.ndarray]:
        """See `RowsOfRanks`."""
        place, part = column.place, column.part
        others = {rank: of_rank for rank, of_rank in keys.items() if rank != self._rank}
        if place in self._restored:
            found = {
                rank: self._rows_of_file(place, part, of_rank) for rank, of_rank in others.items()
            }
        else:
            requests = {
                rank: self._request(place, int(part.rows.places(of_rank[:1])[0]), len(of_rank))
                for rank, of_rank in others.items()
            }
            found = {
                rank: _as_rows(part, received[0])
                for rank, (_, received) in self._ask_all(requests).items()
            }
        if self._rank in keys:
            first = int(part.rows.places(keys[self._rank][:1])[0])
            found[self._rank] = self._rows.read(place, first, len(keys[self._rank]))[1]
        return found

    def save_shares(self, shares: Sequence[RankShare], folder: str) -> List[str]:
        """Lets each rank write its shares of tables into a folder.

        Returns:
          The prefixes of the checkpoints that they are.
        """
        if not shares:
            return []
        request = {
            "ask": SHARES,
            "at": self._at,
            "shares": [share.plain() for share in shares],
            "folder": folder,
            "restored": [one.plain() for one in self._restored_here if one.shares],
        }
        others = [rank for rank in range(self.size) if rank != self._rank]
        answers = self._ask_all(
            dict.fromkeys(others, request),
            lambda: write_shares(shares, self._rank, folder, self._rows.save_share),
        )
        for rank, (answered, _) in answers.items():
            assert self._asked is not None
            bring_files(answered, folder, functools.partial(self._asked.ask, rank))
        numbers = range(len(shares))
        return [share_prefix(folder, rank, n) for rank in range(self.size) for n in numbers]

    def _ask_all(
        self, requests: Dict[int, Head], meanwhile: Callable[[], None] = lambda: None
    ) -> Dict[int, Any]:
        return {} if self._asked is None else self._asked.ask_all(requests, meanwhile)

    def _request(self, place: Place, first: int, count: int) -> Head:
        return {
            "ask": ROWS,
            "at": self._at,
            "variable": place.variable,
            "number": place.number,
            "first": first,
            "count": count,
        }

    def _find_restored(self, held: HeldSession) -> None:
        """What this rank has restored since its last step, the others may not have yet."""
        for restored in held.restored:
            if not restored.saved:
                continue
            checkpoint = CheckpointRows(restored.prefix)
            for table in whole_tables(restored.saved, self._rows.variables):
                for column in table.columns:
                    self._restored[column.place] = checkpoint, table

    def _rows_of_file(self, place: Place, part: Any, keys: np.ndarray) -> np.ndarray:
        checkpoint, table = self._restored[place]
        first = int(keys[0])
        rows = checkpoint.rows(table.name, table.first + first, int(keys[-1]) - first + 1)
        columns = slice(part.first_column, part.first_column + part.rows.width)
        found: np.ndarray = rows[keys - first][:, columns]
        return found


def _as_rows(part: Any, data: bytes) -> np.ndarray:
    rows = np.frombuffer(data, part.rows.dtype.as_numpy_dtype)
    return rows.reshape(-1, part.rows.width)
