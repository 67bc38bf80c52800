"""`graph-opt convert`: saved tables from one format to another."""

from __future__ import annotations

import argparse
from typing import Any, Dict, List

from graph_opt.cli.exit_codes import WrongInput
from graph_opt.cli.progress import Progress
from graph_opt.conversion import CHECKPOINT
from graph_opt.conversion.asked_keys import asked_keys
from graph_opt.conversion.convert import READING_BACK, WRITING, Conversion, convert
from graph_opt.conversion.formats import format_of, open_source, open_target
from graph_opt.reporting.json_documents import json_document
from graph_opt.reporting.tables import bytes_text, counted, first_of, printable, table
from graph_opt.table_files.format import Request
from graph_opt.table_files.layouts import layout_of
from graph_opt.table_files.tables import Choice

_PARTS = {"checking": 0.2, WRITING: 0.5, READING_BACK: 0.3}
_NAMED = 8


def handle(options: argparse.Namespace) -> int:
    """Converts; returns the exit code.

    Raises:
      WrongInput: A path or an option is wrong, or a file is damaged.
    """
    try:
        request = _request(options)
        with Progress(options.target, _PARTS) as progress:

            def watch(part: str, done: int, of: int) -> None:
                progress.begins(part)
                progress.reached(done, of)

            source = open_source(request)
            target = open_target(request, source)
            done = convert(source, target, request.target, options.dry_run, watch)
    except ValueError as error:
        raise WrongInput(str(error)) from error
    except MemoryError as error:
        raise WrongInput("there is no memory for what the file says it has") from error
    except OSError as error:
        path = error.filename or options.target
        raise WrongInput("{}: {}".format(path, error.strerror or error)) from error
    if options.json:
        print(json_document("convert", _plain(done, options.dry_run)))
    else:
        print(_text(done, options))
    return 0


def _request(options: argparse.Namespace) -> Request:
    source_format = options.source_format or format_of(options.sources[0])
    for name, at_fault in (
        ("source_layout", source_format != CHECKPOINT),
        ("layout", options.target_format != CHECKPOINT),
        ("others", options.target_format != CHECKPOINT),
    ):
        if at_fault and getattr(options, name) is not None:
            side = "reads" if name == "source_layout" else "writes"
            raise ValueError(
                "--{} is for a conversion that {} a checkpoint".format(name.replace("_", "-"), side)
            )
    chosen = []
    for text in options.tables:
        name, _, new_name = text.partition("=")
        chosen.append(Choice(name, new_name or name.replace("/part_*", "").replace("*", "")))
    names = [choice.new_name for choice in chosen]
    for name in names:
        if not name or names.count(name) > 1:
            raise ValueError("--table names {!r} twice, or nothing".format(name))
    return Request(
        options.sources,
        options.target,
        source_format,
        options.target_format,
        chosen,
        layout_of(options.source_layout or "whole"),
        layout_of(options.layout or "whole"),
        options.others,
        asked_keys(options.rows, options.keys),
        options.weights_only,
    )


def _text(done: Conversion, options: argparse.Namespace) -> str:
    rows: List[List[Any]] = []
    for one in done.columns:
        first = one.column is one.table.columns[0]
        shape = "[{}, {}]{}".format(
            one.table.num_rows, one.column.width, " and keys" * one.table.has_keys
        )
        rows.append(
            [
                one.table.name if first else "",
                one.column.label,
                shape,
                one.column.dtype.name,
                one.place,
                "" if one.crc32 is None else "{:08x}".format(one.crc32),
            ]
        )
    header = ["table", "what", "shape", "dtype", "to", "" if options.dry_run else "crc32"]
    lines = [table(header, rows), "", "source: " + done.checked]
    if done.dropped:
        lines.append("no place in this format: " + ", ".join(done.dropped))
    for what, names in (("copied as they are", done.copied), ("left out", done.left_out)):
        if names:
            lines.append("{}: {}".format(what, first_of(names, _NAMED)))
    size = bytes_text(done.num_bytes)
    if options.dry_run:
        lines.append("dry run: nothing was written; {} would take {}".format(options.target, size))
    else:
        tables = counted(len({one.table.name for one in done.columns}), "table")
        lines.append("{}: {}, {}, read back and compared".format(options.target, tables, size))
    return "\n".join(printable(line) for line in "\n".join(lines).split("\n"))


def _plain(done: Conversion, dry_run: bool) -> Dict[str, Any]:
    return {
        "dry_run": dry_run,
        "bytes": done.num_bytes,
        "source_checksums": done.checked,
        "no_place_in_this_format": list(done.dropped),
        "copied": list(done.copied),
        "left_out": list(done.left_out),
        "columns": [
            {
                "table": one.table.name,
                "what": one.column.label,
                "rows": one.table.num_rows,
                "width": one.column.width,
                "dtype": one.column.dtype.name,
                "has_keys": one.table.has_keys,
                "to": one.place,
                "crc32": one.crc32,
            }
            for one in done.columns
        ],
    }
