"""The arguments of `graph-opt export`, and of `graph-opt check` for what it wrote."""

from __future__ import annotations

import argparse
from typing import Any, Tuple


def add_export(commands: Any) -> Any:
    """Adds the command to the parser's; returns its own parser."""
    command = commands.add_parser(
        "export",
        help="write a SavedModel whose lookups are fused, for servers",
        description="Reads a SavedModel, a checkpoint or a frozen graph and writes a SavedModel "
        "with the same graph twice: as it is, under its own tags, and with fused lookups, under "
        "these and graph_opt. Both have the same signatures and share the variables. The library "
        "with the ops lies in OUT/assets.extra. Exit code: 1 if no lookup could be fused.",
        allow_abbrev=False,
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
            type=_named_tensor,
            default=[],
            metavar="NAME=TENSOR",
            help="for a checkpoint or a frozen graph: {}; may be repeated".format(text),
        )
    return command


def add_requests(command: argparse.ArgumentParser) -> None:
    """Adds the argument with which `check` compares predictions."""
    command.add_argument(
        "--requests",
        metavar="FILE",
        help="instead of a script, check the folder that graph-opt export wrote: FILE has a "
        "request's inputs by name (.npz), or serialized examples (.tfrecord) for a model with one "
        "input of strings",
    )


def _named_tensor(text: str) -> Tuple[str, str]:
    name, equals, tensor = text.partition("=")
    if not (name and equals and tensor):
        raise argparse.ArgumentTypeError(
            "{!r} is not NAME=TENSOR, such as user=user:0".format(text)
        )
    return name, tensor if ":" in tensor else tensor + ":0"
