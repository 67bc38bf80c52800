"""The arguments of `graph-opt convert`."""

from __future__ import annotations

from typing import Any

from graph_opt.conversion import FORMATS


def add_convert(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "convert",
        summary="bring saved tables from one format to another",
        example="graph-opt convert model tables --to sok",
        description="Reads embedding tables, with the slots of their optimizer, from a checkpoint "
        "of TensorFlow, a folder of sok.dump (SparseOperationKit's format), or .npy files (those "
        "of distributed-embeddings), and writes them in another of these. Checksums are compared, "
        "and what was written is read back, before it gets its name.",
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
        help="a table to convert; may be repeated. By default all, but a checkpoint does not tell "
        "which of its tensors are tables, except dynamic ones. A * stands for the number "
        "of a part: 'users/part_*'",
    )
    command.add_argument(
        "--rows",
        action="append",
        default=[],
        metavar="[NAME=]N",
        help="rows of a dynamic table (all by default) that becomes a variable or a .npy file: "
        "those of keys 0 to N - 1; may be repeated",
    )
    command.add_argument(
        "--keys",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="the same of any keys: row i becomes that of key i of a text with one in each line, "
        "or of a .npy file. Of a table without keys: which key its row i becomes that of",
    )
    layouts = "whole (default), mod:N (a variable of N partitions, looked up by the mod strategy), "
    layouts += "mod-parts:N or div-parts:N (a tensor for each part), to write also dynamic:N (a "
    layouts += "dynamic table in N parts; to read, that is found out)"
    command.add_argument(
        "--source-layout", metavar="LAYOUT", help="how rows lie in a checkpoint to read: " + layouts
    )
    command.add_argument(
        "--layout",
        metavar="LAYOUT",
        help="the same of a checkpoint to write; parts are NEW_NAME/part_K",
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
        help="leave the slots of optimizers out; otherwise it is an error if a file lacks some",
    )
    command.add_argument(
        "--dry-run",
        action="store_true",
        help="check everything, checksums included, and say what would be written",
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
