"""Rows that have changed lately, for what serves tables while they train."""

from __future__ import annotations

import json
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.sharding.agreement import Agreement
from graph_opt.sharding.transport_in_use import transport_in_use
from graph_opt.sok.touched_rows import READ, WRITTEN, TouchedRows, as_tables, touched_rows

_BLOCK_BYTES = 16 << 20


def incremental_model_dump(
    sok_vars: Any, time_threshold: Any, sess: Any = None, touched: Optional[str] = None
) -> Tuple[List[np.ndarray], List[np.ndarray]]:
    """The keys and rows of all ranks that were touched after a moment. All ranks must call it.

    Call it between steps, in a monitored session as well. What was touched by the time of a call,
    and after the moment, is in its result, so dumps whose thresholds are the times before the dumps
    before them have every change.

    Args:
      sok_vars: A `sok.Variable` or `sok.DynamicVariable`, or a list of them.
      time_threshold: A datetime with a time zone; rows that were touched after it are wanted. Or
        the number of an epoch, from 0 on: rows that were touched after its end by `sok.end_epoch`.
        Also a list of one, or of one for each table.
      sess: In graphs: the session; by default the one that is open.
      touched: `read`: rows that were looked up or written, as in SparseOperationKit; `written`:
        rows that were written or made. By default `read`; of static tables, which note
        no lookups, `written`.

    Returns:
      The keys of each table, [n], and their rows, [n, D], of rank 0, 1, ...: as they are on all
      ranks. Of static tables, the first call has all rows, and later ones may have rows that have
      changed since the call before, even if that was before the moment.

    Raises:
      TypeError: There is something other than tables and thresholds.
      ValueError: Lists differ in length, a datetime is naive, an epoch has not ended, or ranks dump
        different tables.
      RuntimeError: There is no session, or another rank has failed.

    Example:
      >>> before = datetime.datetime.now(datetime.timezone.utc)
      >>> session.run(train)
      >>> keys, rows = sok.incremental_model_dump([users, items], before, session)
    """
    session = _session(sess)
    tables = [touched_rows(table, session) for table in as_tables(sok_vars)]
    kinds = [_kind(table, touched) for table in as_tables(sok_vars)]
    moments = _moments(tables, time_threshold)
    steps = ArraySteps(session)
    ranks = Agreement(transport_in_use(), steps)
    _compare(ranks, [table.name for table in as_tables(sok_vars)])
    every_keys: List[np.ndarray] = []
    every_rows: List[np.ndarray] = []
    for variable, table, moment, kind in zip(as_tables(sok_vars), tables, moments, kinds):
        keys = np.zeros([0], np.int64)
        rows = np.zeros([0, variable.keyed_rows.width], variable.dtype.as_numpy_dtype)
        with ranks.noting():
            keys, rows = table.since(steps, moment, kind)
        ranks.agree()
        keys = keys.astype(_key_dtype(variable))
        every_keys.append(_of_all_ranks(ranks, keys))
        every_rows.append(_of_all_ranks(ranks, rows))
    return every_keys, every_rows


def end_epoch(sok_vars: Any, sess: Any = None) -> None:
    """Ends an epoch of tables: what is touched from now on is of the next one.

    `incremental_model_dump` takes the numbers of epochs, and tables that evict by `kEpochLfu` give
    up rows of earlier epochs first. All ranks should call it, between steps.

    Args:
      sok_vars: As for `incremental_model_dump`.
      sess: As there.

    Raises:
      TypeError: There is something other than tables.

    Example:
      >>> sok.end_epoch(users)
      >>> keys, rows = sok.incremental_model_dump(users, 0)  # touched after the first epoch
    """
    session = _session(sess)
    for table in as_tables(sok_vars):
        touched_rows(table, session).end_epoch(ArraySteps(session))


def _session(session: Any) -> Any:
    if session is not None or tf.executing_eagerly():
        return session
    opened = tf.get_default_session()
    if opened is None:
        raise RuntimeError("tables of a graph are in a session: pass it as sess=")
    return opened


def _kind(variable: Any, touched: Optional[str]) -> str:
    if touched not in (None, READ, WRITTEN):
        raise ValueError("touched is {!r}; choose {!r} or {!r}".format(touched, READ, WRITTEN))
    if touched == READ and variable.keyed_rows.fixed_rows is not None:
        raise ValueError(
            "lookups in {!r} are not noted, as its rows are fixed: choose touched={!r}".format(
                variable.name, WRITTEN
            )
        )
    return touched or READ


def _moments(tables: Sequence[TouchedRows], thresholds: Any) -> List[int]:
    given = list(thresholds) if isinstance(thresholds, (list, tuple)) else [thresholds]
    if len(given) not in (1, len(tables)):
        raise ValueError(
            "time_threshold has {} entries for {} tables; need one, or one for each".format(
                len(given), len(tables)
            )
        )
    each = given * len(tables) if len(given) == 1 else given
    return [table.end_of(threshold) for table, threshold in zip(tables, each)]


def _key_dtype(variable: Any) -> Any:
    return getattr(variable, "key_type", tf.int64).as_numpy_dtype


def _compare(ranks: Agreement, names: Sequence[str]) -> None:
    """Fails on all ranks if they are about to dump different tables."""
    said = [json.loads(bytes(one)) for one in ranks.gather(json.dumps(names).encode("utf-8"))]
    for rank, other in enumerate(said):
        if other != said[0]:
            raise ValueError(
                "ranks must dump the same tables: rank 0 dumps {}, rank {} {}".format(
                    said[0], rank, other
                )
            )


def _of_all_ranks(ranks: Agreement, mine: np.ndarray) -> np.ndarray:
    """The arrays of all ranks, one after another."""
    if ranks.size == 1:
        return mine
    data = np.ascontiguousarray(mine).tobytes()
    longest = max(int(bytes(one)) for one in ranks.gather(str(len(data)).encode("utf-8")))
    parts: List[List[bytes]] = [[] for _ in range(ranks.size)]
    for first in range(0, longest, _BLOCK_BYTES):
        for part, received in zip(parts, ranks.gather(data[first : first + _BLOCK_BYTES])):
            part.append(received.tobytes())
    every = np.frombuffer(b"".join(b"".join(part) for part in parts), mine.dtype)
    return every.reshape((-1,) + mine.shape[1:])
