"""The arguments of `graph-opt convert`."""

from __future__ import annotations

from typing import Any

from graph_opt.conversion import FORMATS


def add_convert(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "convert",
        summary="convert saved tables from one format to another",
        example="graph-opt convert model tables --to sok",
        description="Reads embedding tables, with the slots of their optimizer, from a TensorFlow "
        "checkpoint, a folder that sok.dump wrote (SparseOperationKit's format), or .npy files (as "
        "distributed-embeddings has them), and writes them in any of these formats. The output "
        "gets its name once checksums were compared and everything was read back.",
    )
    command.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="a checkpoint's folder or prefix, a folder, or a .npy file; several checkpoints have "
        "the parts of the tables, in the order of the ranks",
    )
    command.add_argument("target", metavar="TARGET", help="prefix or folder to write; must be new")
    command.add_argument(
        "--to",
        dest="target_format",
        choices=sorted(FORMATS),
        required=True,
        help="format to write",
    )
    command.add_argument(
        "--from",
        dest="source_format",
        choices=sorted(FORMATS),
        help="format to read; by default, what SOURCE looks like",
    )
    command.add_argument(
        "--table",
        dest="tables",
        action="append",
        default=[],
        metavar="NAME[=NEW_NAME]",
        help="a table to convert; may be repeated. By default all, but static tables of a "
        "checkpoint must be named, since nothing there tells them from other tensors. A * stands "
        "for the number of a part: 'users/part_*'",
    )
    command.add_argument(
        "--rows",
        action="append",
        default=[],
        metavar="[NAME=]N",
        help="where a dynamic table becomes a variable or a .npy file: take the rows of keys 0 to "
        "N - 1 (default: all rows); may be repeated",
    )
    command.add_argument(
        "--keys",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="the same for any keys: row i is the row of the i-th key in FILE, which is a text "
        "with a key in each line or a .npy file. For a table without keys: its row i becomes the "
        "row of the i-th key",
    )
    command.add_argument(
        "--source-layout",
        metavar="LAYOUT",
        help="how a checkpoint that is read lays out rows: whole (default), mod:N (a variable of N "
        "partitions, looked up by the mod strategy), mod-parts:N or div-parts:N (a tensor for each "
        "part); dynamic tables are recognized",
    )
    command.add_argument(
        "--layout",
        metavar="LAYOUT",
        help="how a checkpoint that is written lays out rows: one of these, or dynamic:N (a "
        "dynamic table in N parts); parts are NEW_NAME/part_K",
    )
    command.add_argument(
        "--others",
        metavar="CHECKPOINT",
        help="copy all other tensors from there into the checkpoint to write; by default from "
        "SOURCE, if that is one checkpoint",
    )
    command.add_argument(
        "--weights-only",
        action="store_true",
        help="leave out the slots of optimizers; otherwise, a file that lacks some is an error",
    )
    command.add_argument(
        "--dry-run",
        action="store_true",
        help="check everything, checksums included, and say what would be written",
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
