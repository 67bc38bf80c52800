"""Opens what is converted, in whichever format it is."""

from __future__ import annotations

import importlib
import os

from graph_opt.conversion import FORMATS
from graph_opt.conversion.asked_keys import OfAskedKeys
from graph_opt.table_files.format import Format, Request
from graph_opt.table_files.slot_names import lacking_slots
from graph_opt.table_files.tables import Source, Table, Target


def format_of(path: str) -> str:
    """Name of the format of what is at a path.

    Raises:
      ValueError: It is of none.
    """
    return next(name for name in FORMATS if _format(name).is_at(path))


def open_source(request: Request) -> Source:
    """Opens what is to be read.

    Raises:
      ValueError: There is nothing of the format, or no such table.
    """
    made, path = _format(request.source_format), request.sources[0]
    if not made.in_parts:
        if len(request.sources) > 1:
            raise ValueError(
                "{} sources: only checkpoints are in parts".format(len(request.sources))
            )
        if not os.path.exists(path):
            raise ValueError("there is no {}".format(path))
    source = made.source(request)
    if not source.tables:
        raise ValueError("{} has no tables in format {}".format(path, request.source_format))
    for table in source.tables:
        _check_slots(table)
    if not request.asked:
        return source
    for table in source.tables if _keeps_keys(request) else ():
        if table.has_keys or source.is_dynamic(table):
            raise ValueError(
                "{!r} keeps its keys in this format: --rows and --keys are for formats that number "
                "rows, or for tables without keys".format(table.name)
            )
    return OfAskedKeys(source, request.asked)


def open_target(request: Request, source: Source) -> Target:
    """Prepares what is to be written; writes nothing.

    Raises:
      ValueError: It exists, or is not of the format.
    """
    made = _format(request.target_format)
    if os.path.exists(request.target + made.ending):
        raise ValueError("{} exists: remove it, or choose another name".format(request.target))
    if not _keeps_keys(request):
        _require_rows(source)
    return made.target(request, source)


def _format(name: str) -> Format:
    found: Format = importlib.import_module("graph_opt.table_files." + FORMATS[name]).FORMAT
    return found


def _keeps_keys(request: Request) -> bool:
    """Whether tables of any keys stay what they are."""
    return request.makes_dynamic or _format(request.target_format).keeps_keys


def _check_slots(table: Table) -> None:
    """Makes sure that no optimizer has only some of its slots."""
    for optimizer in sorted({column.optimizer for column in table.columns if column.is_slot}):
        slots = [column.slot for column in table.columns if column.optimizer == optimizer]
        lacking = lacking_slots(optimizer, slots)
        if lacking:
            raise ValueError(
                "{!r} has {} of {}, but not {}: --weights-only converts without any".format(
                    table.name, " and ".join(sorted(slots)), optimizer, " and ".join(lacking)
                )
            )


def _require_rows(source: Source) -> None:
    """Makes sure that dynamic tables can become variables."""
    for table in source.tables:
        key = source.unnumbered_key(table)
        if key is not None:
            raise ValueError(
                "{!r} has {} rows, and key {} is none of 0, 1, ..., {}: only --to sok and --layout "
                "dynamic:N keep keys; --rows and --keys say which keys become rows".format(
                    table.name, table.num_rows, key, table.num_rows - 1
                )
            )
