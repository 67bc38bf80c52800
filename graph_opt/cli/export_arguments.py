"""The arguments of `graph-opt export`, and of `graph-opt check` for what it wrote."""

from __future__ import annotations

import argparse
from typing import Any

from graph_opt.cli.argument_types import named_tensor, names, number_of
from graph_opt.cli.shared_arguments import add_config, add_input
from graph_opt.table_files.low_precision_names import LOW_PRECISION


def add_export(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "export",
        summary="write a SavedModel whose lookups are fused, for servers",
        example="graph-opt export model -o served",
        description="Reads a SavedModel, a checkpoint or a frozen graph and writes a SavedModel "
        "with the same graph twice: as it is, under its own tags, and with fused lookups, under "
        "these and graph_opt. Both have the same signatures and share the variables. The library "
        "with the ops lies in OUT/assets.extra. Exit code: 1 if no lookup could be fused.",
    )
    command.add_argument(
        "-o", "--output", required=True, metavar="OUT", help="folder to write; must be new"
    )
    for flag, variable, text in (
        ("--feed", "feeds", "what requests feed, and the name that the signature gives it"),
        ("--fetch", "fetches", "what requests fetch, in the same way"),
    ):
        command.add_argument(
            flag,
            dest=variable,
            action="append",
            type=named_tensor,
            default=[],
            metavar="NAME=TENSOR",
            help="for a checkpoint or a frozen graph: {}; may be repeated".format(text),
        )
    command.add_argument(
        "--repeated",
        type=names,
        default=[],
        metavar="NAME,NAME",
        help="inputs, or features of examples, that are the same in all rows of a request, such as "
        "those of the user: what depends on them alone is computed once; requests are checked",
    )
    command.add_argument(
        "--map-tables",
        action="store_true",
        help="have the fused graph read its variables from files in memory, which all servers on a "
        "machine share, and which graph-opt update replaces while requests run",
    )
    command.add_argument(
        "--table-dtype",
        choices=LOW_PRECISION,
        default="",
        metavar="DTYPE",
        help="store the tables that only fused lookups read as float16, bfloat16, or int8 with a "
        "scale for each row, in files that servers on a machine share in memory",
    )
    command.add_argument(
        "--requests",
        metavar="FILE",
        help="then run these requests on both graphs, and print how far predictions are apart: a "
        "file as graph-opt check takes it",
    )
    add_input(command)
    add_config(command)


def add_update(commands: Any) -> None:
    """Adds `update` to the parser's."""
    command = commands.add_parser(
        "update",
        summary="write an update of an export's tables, for running servers and later ones",
        example="graph-opt update served model/model.ckpt-2000",
        description="Compares checkpoints with the tables that graph-opt export --map-tables has "
        "written, and writes what differs: whole tables, or rows. A server that runs gets the "
        "update by its path, which is sent to the signature update_tables; one that starts later "
        "starts from it. Exit code: 1 if nothing differs.",
    )
    command.add_argument("input", metavar="SERVED", help="folder that graph-opt export wrote")
    command.add_argument(
        "checkpoints",
        metavar="CHECKPOINT",
        nargs="+",
        help="prefixes or folders of checkpoints, in order: a full one, a full one and its "
        "increment, or increments of the checkpoint that was exported",
    )
    command.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="folder to write, which must be new, and from which no server starts by itself "
        "(default: the next number in SERVED/updates)",
    )


def add_requests(command: argparse.ArgumentParser) -> None:
    """Adds the argument with which `check` compares predictions."""
    command.add_argument(
        "--requests",
        metavar="FILE",
        help="instead of a script, check the folder that graph-opt export wrote: FILE has a "
        "request's inputs by name (.npz), or serialized examples (.tfrecord) for a model with one "
        "input of strings",
    )
    command.add_argument(
        "--tolerance",
        type=number_of("a share of the largest value, such as 0.01", lambda share: share >= 0.0),
        metavar="SHARE",
        help="with --requests: exit with 1 if predictions differ by more than this share of the "
        "largest value. By default, if they differ by more than rounding does, apart from what "
        "tables of low precision change",
    )
