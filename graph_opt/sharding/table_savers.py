"""`tf.train.Saver` for sharded tables: its checkpoints have whole tables, whichever rank calls it.

Whatever saves or restores (`tf.train.Saver`, monitored sessions, Estimators, the Supervisor) runs a
step with SaveV2 or RestoreV2. A step that does so with sharded tables is done here instead: tables
pass through memory in blocks, and the rest of the step runs without them.
"""

from __future__ import annotations

import contextlib
import os
import uuid
import weakref
from typing import Any, Dict, List, MutableMapping, Optional, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.graph_lifetime import kept_with
from graph_opt.compat.step_calls import before_sessions_close, offer_runs_to
from graph_opt.reporting.stderr import say
from graph_opt.sharding.guard import row_service_of
from graph_opt.sharding.held_sessions import HeldSession
from graph_opt.sharding.imported_tables import (
    adopt_imported_tables,
    describe_rows,
    has_imported_tables,
)
from graph_opt.sharding.rank_shares import TableShares, note_shares, table_shares
from graph_opt.sharding.ranks_of_session import RanksOfSession
from graph_opt.sharding.restored_rows import Restored, index_checksum
from graph_opt.sharding.row_channel import SECRET
from graph_opt.sharding.saver_nodes import SavedVariable, SaverStep, saver_step
from graph_opt.sharding.session_rows import SessionRows
from graph_opt.sharding.table_variables import note_graph, note_sharded, table_variables
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sharding.transport_in_use import transport_if_chosen
from graph_opt.sharding.whole_tables import (
    WholeTable,
    check_tables,
    clear_tables,
    read_tables,
    slices,
    whole_tables,
    write_tables,
)
from graph_opt.table_files.checkpoint_rows import CheckpointRows, tensorflow_errors
from graph_opt.table_files.checkpoint_slices import CheckpointParts, file_steps, merge_parts

_MAX_CACHED_STEPS = 256
Feeds = List[Tuple[Any, Any]]


def save_whole_tables(graph: Any, transport: Transport, table: Any = None) -> None:
    """From now on, savers of a graph save and restore its sharded tables whole.

    Args:
      graph: The graph.
      transport: How this rank reaches the others.
      table: A `ShardedVariable`. Others are those of the graph's collections, in so far as
        `table_parts` knows them.
    """
    if table is not None:
        note_sharded(graph, table)
        describe_rows(graph, table, transport)
    if graph not in _transports:
        _transports[graph] = transport
        note_graph(graph)
        watch_savers()


def save_shares(graph: Any, transport: Transport, table: TableShares) -> None:
    """From now on, savers of a graph save and restore what each rank has of a table.

    Args:
      graph: The graph.
      transport: How this rank reaches the others.
      table: The table.
    """
    note_shares(graph, table)
    save_whole_tables(graph, transport)


def watch_savers() -> None:
    """From now on, savers of graphs with sharded tables are known, imported graphs included."""
    offer_runs_to(_run_saver)
    before_sessions_close(_close)


def whole_value(session: Any, variable: str) -> np.ndarray:
    """The value of a sharded variable after the session's last step, with the rows of all ranks.

    Args:
      session: The session. Other ranks need not ask for anything; one that is behind is waited for.
      variable: Name of the variable's op, in a graph of `save_whole_tables`.

    Raises:
      tf.errors.FailedPreconditionError: The other ranks cannot be asked.
    """
    step = SaverStep(True, (SavedVariable(variable, "", variable),), (), None, (), (), (), ())
    return _Saver(session, _transports[session.graph], step, []).value()


_transports: MutableMapping[Any, Transport] = weakref.WeakKeyDictionary()


def _run_saver(
    session: Any, fetches: List[Any], targets: List[Any], feeds: Feeds
) -> Optional[List[Any]]:
    """Runs a step of a saver; returns None if it is something else."""
    graph = session.graph
    if graph not in _transports and has_imported_tables(graph):
        ranks = transport_if_chosen() or OneRank()
        adopt_imported_tables(graph, ranks)
        save_whole_tables(graph, ranks)
    transport = _transports.get(graph)
    if transport is None:
        return None
    step = _saver_step(graph, fetches, targets, [tensor for tensor, _ in feeds])
    if step is None:
        return None
    saver = _Saver(session, transport, step, feeds)
    if transport.size == 1 and saver.are_plain():
        return None
    return saver.save() if step.saves else saver.restore()


def _close(session: Any, error: Optional[BaseException]) -> None:
    transport = _transports.get(session.graph)
    service = None if transport is None else row_service_of(transport)
    if service is not None:
        service.close(session, error)


def _saver_step(
    graph: Any, fetches: List[Any], targets: List[Any], feeds: List[Any]
) -> Optional[SaverStep]:
    """Remembered for each set of fetches, targets and feeds."""
    given = (*fetches, None, *targets, None, *feeds)
    key = tuple(map(id, given))
    steps: Dict[Any, Any] = kept_with(graph, "steps of savers", dict)
    if key not in steps:
        if len(steps) >= _MAX_CACHED_STEPS:
            steps.clear()
        variables = table_variables(graph)
        # What was given is kept alive, so that nothing else gets its id.
        shared = table_shares(graph)
        steps[key] = saver_step(graph, fetches, targets, feeds, variables, shared), given
    found: Optional[SaverStep] = steps[key][0]
    return found


class _Saver:
    """One step of a saver."""

    def __init__(self, session: Any, transport: Transport, step: SaverStep, feeds: Feeds) -> None:
        self._session = session
        self._transport = transport
        self._step = step
        self._feeds = {tensor.name: value for tensor, value in feeds}
        self._service = row_service_of(transport)
        self._held: Optional[HeldSession] = None
        if self._service is not None:
            self._held = self._service.hold(session)
        self._rows = SessionRows(session) if self._held is None else self._held.rows
        self._rows.prepare()
        self._rows.prepare_shares(step.shares)
        self._tables = whole_tables(step.tables, self._rows.variables)

    def are_plain(self) -> bool:
        """Whether TensorFlow's own steps do the same, if there is one rank."""
        return all(
            [column.part.name for column in table.columns] == [table.columns[0].place.variable]
            for table in self._tables
        )

    def save(self) -> List[Any]:
        """Writes a checkpoint; returns what the step's fetches are."""
        prefix = self._prefix(self._step.prefix)
        self._require_service("a tf.train.Saver can not save")
        folder = "{}_temp_{}".format(prefix, uuid.uuid4().hex)
        parent = os.path.dirname(prefix) or "."
        if not tf.gfile.Exists(parent):
            tf.gfile.MkDir(parent)  # as TensorFlow, not the folders above
        tf.gfile.MkDir(folder)
        try:
            with self._waiting(), file_steps() as files, self._ranks("saves a checkpoint") as ranks:
                parts = CheckpointParts(folder, files)
                write_tables(self._tables, ranks, parts)
                prefixes = parts.prefixes + ranks.save_shares(self._step.shares, _absolute(folder))
                for number, (operation, tensor) in enumerate(self._step.others):
                    prefixes.append(os.path.join(folder, "others-{:05d}".format(number)))
                    self._session.run(operation, {**self._feeds, tensor.name: prefixes[-1]})
                merge_parts(prefixes, prefix, files)
        finally:
            if tf.gfile.Exists(folder):
                tf.gfile.DeleteRecursively(folder)
        return self._run_rest()

    def value(self) -> np.ndarray:
        """The whole table."""
        self._require_service("a fetch can not read")
        table = self._tables[0]
        values = np.empty(table.shape(), table.keyed.dtype.as_numpy_dtype)
        with self._ranks("fetches a table") as ranks:
            for one in slices(table, ranks):
                values[one.first : one.first + len(one.values)] = one.values
        return values

    def restore(self) -> List[Any]:
        """Reads this rank's rows; returns what the step's fetches are."""
        read: Dict[str, Restored] = {}
        for source in self._step.sources:
            prefix = _absolute(self._prefix(source.prefix))
            nothing = Restored(self._transport.rank, prefix, index_checksum(prefix), [], [])
            restored = read.setdefault(prefix, nothing)
            restored.saved.extend(source.tables)
            restored.shares.extend(source.shares)
        with tensorflow_errors():
            found = [self._checked(one.prefix, one.saved) for one in read.values()]
        results = self._run_rest()
        with tensorflow_errors():
            for tables, checkpoint in found:
                clear_tables(tables, self._rows.steps)
                read_tables(tables, checkpoint, self._rows.steps)
        for restored in read.values():
            for share in restored.shares:
                self._rows.restore_share(share, restored.prefix)
            self._note_restored(restored)
        return results

    def _checked(
        self, prefix: str, saved: List[SavedVariable]
    ) -> Tuple[List[WholeTable], CheckpointRows]:
        tables = whole_tables(saved, self._rows.variables)
        checkpoint = CheckpointRows(prefix)
        check_tables(tables, checkpoint)
        return tables, checkpoint

    def _note_restored(self, restored: Restored) -> None:
        if self._held is not None and self._service is not None:
            self._service.note_restored(self._held, restored)
        elif self._transport.size > 1:
            say(
                "rank {} has restored its rows of sharded tables from '{}'; under MPI, ranks of "
                "several machines without a common {} must do so themselves".format(
                    self._transport.rank, restored.prefix, SECRET
                )
            )

    def _prefix(self, tensor: Any) -> str:
        value = self._feeds.get(tensor.name)
        if value is None:
            value = self._session.run(tensor, self._feeds)
        return str(tf.compat.as_str(np.asarray(value).item()))

    def _run_rest(self) -> List[Any]:
        fetches = list(self._step.fetches)
        results: List[Any] = self._session.run(fetches + list(self._step.targets), self._feeds)
        return results[: len(fetches)]

    def _ranks(self, purpose: str) -> RanksOfSession:
        asked = None if self._service is None else self._service.asking(purpose)
        return RanksOfSession(self._rows, self._held, self._service, asked)

    def _waiting(self) -> Any:
        return contextlib.nullcontext() if self._held is None else self._held.waiting()

    def _require_service(self, what: str) -> None:
        if self._service is None and self._transport.size > 1:
            names = [one.name for one in self._tables] + [one.table for one in self._step.shares]
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                "{} '{}', of which other ranks have rows: under MPI, ranks of several machines "
                "can be asked only if all have a common {}; without it, let all ranks save with "
                "sok.CheckpointSaver".format(what, names[0], SECRET),
            )


def _absolute(prefix: str) -> str:
    """A path that other ranks understand, too: they may be in other folders."""
    return prefix if "://" in prefix else os.path.abspath(prefix)
