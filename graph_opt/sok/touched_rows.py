"""When rows of tables were touched: by the clock, and by epochs that a program ends."""

from __future__ import annotations

import datetime
import numbers
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.compat.callables import raw_session
from graph_opt.compat.resource_variables import beside
from graph_opt.ops import dynamic_content
from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.sharding.changed_rows import ChangedRows, now_micros
from graph_opt.sharding.sharded_variable import StaticVariable
from graph_opt.sok.dynamic_variable import DynamicVariable

READ = "read"
WRITTEN = "written"

_NINETEEN_SEVENTY = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


class TouchedRows:
    """What a session, or eager execution, knows of when rows of a table were touched.

    Args:
      table: A `sok.Variable` or a `sok.DynamicVariable`.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self._ends: List[int] = []
        self._changed: Optional[ChangedRows] = None
        if isinstance(table, StaticVariable):
            self._changed = ChangedRows(table.keyed_rows)

    def end_epoch(self, steps: ArraySteps) -> None:
        """Lets what comes belong to another epoch."""
        self._ends.append(now_micros())
        if self._changed is None:
            steps.run(("end epoch", self._table.name), self._end_epoch)

    def end_of(self, threshold: Any) -> int:
        """The moment that a threshold stands for, in microseconds since 1970.

        Args:
          threshold: An aware datetime, or the number of an epoch: its end.

        Raises:
          TypeError: It is neither.
          ValueError: The datetime is naive, or the epoch has not ended.
        """
        if isinstance(threshold, datetime.datetime):
            if threshold.tzinfo is None:
                raise ValueError(
                    "time_threshold {} has no time zone: use "
                    "datetime.datetime.now(datetime.timezone.utc)".format(threshold)
                )
            return (threshold - _NINETEEN_SEVENTY) // _MICROSECOND
        if isinstance(threshold, bool) or not isinstance(threshold, numbers.Integral):
            raise TypeError(
                "time_threshold is a {}; need a datetime with a time zone, or the number of an "
                "epoch".format(type(threshold).__name__)
            )
        epoch = int(threshold)
        if not 0 <= epoch < len(self._ends):
            raise ValueError(
                "time_threshold is epoch {}, but {} epochs of {!r} have ended (by "
                "sok.end_epoch)".format(epoch, len(self._ends), self._table.name)
            )
        return self._ends[epoch]

    def since(self, steps: ArraySteps, moment: int, touched: str) -> Tuple[np.ndarray, np.ndarray]:
        """Keys and rows of this rank that were touched after a moment."""
        name = self._table.name.split(":")[0]
        if self._changed is None:
            key = ("rows since", name, touched)
            keys, rows = steps.run(key, self._rows_since(touched), np.int64(moment))
            return keys, rows
        if self._changed.is_new:
            say_for_all_ranks(
                "sok.incremental_model_dump: nothing has noted changes of '{}' before this call, "
                "which gives all its rows".format(name)
            )
        return self._changed.since(steps, moment)

    def _rows_since(self, touched: str) -> Any:
        def rows(moment: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
            with beside(self._table):
                return dynamic_content.rows_since(self._table.handle, moment, touched == WRITTEN)

        return rows

    def _end_epoch(self) -> Any:
        with beside(self._table):
            return dynamic_content.end_epoch(self._table.handle)


def touched_rows(table: Any, session: Any) -> TouchedRows:
    """What is known of a table in a session; None: eagerly.

    Raises:
      TypeError: It is no table of `sok`.
    """
    if not isinstance(table, (StaticVariable, DynamicVariable)):
        raise TypeError(
            "got a {}; need a sok.Variable or a sok.DynamicVariable".format(type(table).__name__)
        )
    place = table.transport if session is None else raw_session(session)
    if place not in table.touched_rows:
        table.touched_rows[place] = TouchedRows(table)
    known: TouchedRows = table.touched_rows[place]
    return known


def as_tables(sok_vars: Any) -> Sequence[Any]:
    """One table, or a list of them, as a list."""
    return list(sok_vars) if isinstance(sok_vars, (list, tuple)) else [sok_vars]
