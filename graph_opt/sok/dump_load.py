"""Tables in files that SparseOperationKit reads, and the other way round."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional

from graph_opt.compat import tf
from graph_opt.compat.optimizer_state import counters_of, slots_by_name
from graph_opt.sharding.keyed_rows import keyed_rows
from graph_opt.sharding.saving import (
    MODES,
    REPLACE,
    SavedTable,
    dump_tables,
    load_tables,
    prepare_saving,
)
from graph_opt.sharding.transport_in_use import transport_in_use
from graph_opt.sok.incremental_dump import incremental_model_dump
from graph_opt.sok.optimizer import OptimizerWrapper
from graph_opt.table_files.sok_files import file_name_of

# `incremental_model_dump` is here, too, as SparseOperationKit's scripts import it.
__all__ = ["DumpHook", "dump", "incremental_model_dump", "load"]

# SparseOperationKit takes the last of these that is part of the name of the class.
_NAMES_OF_OPTIMIZERS = ("SGD", "Adamax", "Adadelta", "Adagrad", "Ftrl", "Adam")


def dump(path: Any, vars: Any, optimizer: Any = None, session: Any = None) -> None:
    """Writes whole tables into a folder, whatever rank has their rows. All ranks must call it.

    Rank 0 writes. The files, in SparseOperationKit's format, replace earlier ones only when all are
    complete; `<table>-graph_opt.json` beside them has checksums and the optimizer's iterations.

    Args:
      path: The folder, made if it is missing.
      vars: A `sok.Variable`, or a list of them.
      optimizer: To write slots as well: the `OptimizerWrapper` that trains them, or another
        optimizer; also as a list of one.
      session: In graphs: the session, which may be a monitored one; by default the one that is
        open. Call it between steps.

    Raises:
      TypeError: There is something other than tables.
      ValueError: Two tables would have the same files, the optimizer has no slots of a table, or
        ranks dump different tables.
      RuntimeError: There is no session, or another rank has failed.

    Example:
      >>> sok.dump("tables", [users, items], optimizer)
    """
    session = _session(session)
    transport = transport_in_use()
    dump_tables(os.fspath(path), saved_tables(vars, optimizer), transport, session)


def load(
    path: Any, vars: Any, optimizer: Any = None, session: Any = None, mode: str = REPLACE
) -> None:
    """Reads tables that `dump` or SparseOperationKit wrote, on any number of ranks.

    All ranks must call it and see the folder. Each reads its own rows, by key.

    Args:
      path: The folder.
      vars: A `sok.Variable`, or a list of them.
      optimizer: To read slots and iterations as well; as for `dump`.
      session: As for `dump`.
      mode: `replace`: the files must have every row of each table. `merge`: rows that they do not
        have stay as they are.

    Raises:
      TypeError: There is something other than tables.
      FileNotFoundError: A table or a slot is not there.
      ValueError: Files are damaged or belong to other tables.
      RuntimeError: There is no session, or another rank has failed.

    Example:
      >>> sok.load("tables", [users, items], optimizer)
    """
    if mode not in MODES:
        raise ValueError("mode is {!r}; choose one of {}".format(mode, ", ".join(MODES)))
    session = _session(session)
    transport = transport_in_use()
    load_tables(os.fspath(path), saved_tables(vars, optimizer), transport, session, mode)


class DumpHook(tf.train.SessionRunHook):
    """Dumps tables during a monitored training, each time over the dump before.

    All ranks need the hook, and must run the same number of steps.

    Args:
      path: The folder. `{step}` in it becomes the number of steps that this session has run, and
        so keeps all dumps.
      vars: As for `dump`.
      optimizer: As for `dump`.
      every_steps: Dump after so many steps; None for never.
      at_end: Whether to dump when the session ends without an error.

    Raises:
      ValueError: `every_steps` is not positive.

    Example:
      >>> hook = sok.DumpHook("tables", [users, items], optimizer, every_steps=10000)
      >>> with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
      ...     while not session.should_stop():
      ...         session.run(train)
    """

    def __init__(
        self,
        path: Any,
        vars: Any,
        optimizer: Any = None,
        every_steps: Optional[int] = None,
        at_end: bool = True,
    ) -> None:
        if every_steps is not None and every_steps < 1:
            raise ValueError("every_steps is {}; need at least 1".format(every_steps))
        self._path = os.fspath(path)
        self._vars = vars
        self._optimizer = optimizer
        self._every_steps = every_steps
        self._at_end = at_end
        self._steps = 0
        self._dumped = -1

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Adds the nodes while no step runs."""
        prepare_saving(saved_tables(self._vars, self._optimizer), transport_in_use(), session)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Dumps if it is time."""
        self._steps += 1
        if self._every_steps is not None and self._steps % self._every_steps == 0:
            self._dump(run_context.session)

    def end(self, session: Any) -> None:
        """Dumps, unless the last step did."""
        if self._at_end and self._dumped != self._steps:
            self._dump(session)

    def _dump(self, session: Any) -> None:
        path = self._path.replace("{step}", str(self._steps))
        dump(path, self._vars, self._optimizer, session)
        self._dumped = self._steps


def saved_tables(vars: Any, optimizer: Any = None) -> List[SavedTable]:
    """What `dump` writes and `load` reads.

    Raises:
      TypeError: There is something other than tables.
      ValueError: Two tables would have the same files, or the optimizer has no slots of a table.
    """
    optimizer = _only(optimizer)
    tables: Dict[str, SavedTable] = {}
    for variable in vars if isinstance(vars, (list, tuple)) else [vars]:
        rows = keyed_rows(variable)
        file_name = file_name_of(variable.name)
        if file_name in tables:
            raise ValueError(
                "{!r} and {!r} would both have the files {}-*: give them names that differ in more "
                "than punctuation".format(tables[file_name].rows.name, rows.name, file_name)
            )
        if optimizer is None:
            tables[file_name] = SavedTable(file_name, rows, "", {}, {})
            continue
        slots = {name: keyed_rows(slot) for name, slot in _slots(optimizer, variable).items()}
        name = _name_of(optimizer)
        tables[file_name] = SavedTable(file_name, rows, name, slots, _counters(optimizer))
    return list(tables.values())


def _only(optimizer: Any) -> Any:
    if not isinstance(optimizer, (list, tuple)):
        return optimizer
    if len(optimizer) != 1:
        raise ValueError("optimizer is a list of {}; need one optimizer".format(len(optimizer)))
    return optimizer[0]


def _slots(optimizer: Any, variable: Any) -> Mapping[str, Any]:
    if isinstance(optimizer, OptimizerWrapper):
        return optimizer.slots_of(variable)
    slots = slots_by_name(optimizer, variable)
    variable.own_slots(slots)
    return slots


def _counters(optimizer: Any) -> Mapping[str, Any]:
    if isinstance(optimizer, OptimizerWrapper):
        return optimizer.iterations
    return counters_of(optimizer)


def _name_of(optimizer: Any) -> str:
    """What SparseOperationKit calls it, or else its class without "Optimizer"."""
    kind = type(optimizer.wrapped if isinstance(optimizer, OptimizerWrapper) else optimizer)
    known = [name for name in _NAMES_OF_OPTIMIZERS if name in kind.__name__]
    name: str = kind.__name__
    if known:
        return known[-1]
    return name[: -len("Optimizer")] if name.endswith("Optimizer") else name


def _session(session: Any) -> Any:
    if session is not None or tf.executing_eagerly():
        return session
    opened = tf.get_default_session()
    if opened is None:
        raise RuntimeError("tables of a graph are in a session: pass it as session=")
    return opened
