"""Arguments that several commands have: a graph file, and a config."""

from __future__ import annotations

import argparse
from typing import Any

from graph_opt.cli.argument_types import number_from

DEFAULTS = ("do_async_embedding=true", "threads_num=1", "capacity=2", "infer_io_stage=true")

_MOST_NODES = 500_000
_GRAPH_FILE = (
    "graph: a GraphDef, MetaGraphDef or SavedModel (.pb, .pbtxt, .meta), binary or text, gzipped "
    "or not; a SavedModel's folder; or a checkpoint's folder or prefix"
)


def add_input(command: argparse.ArgumentParser) -> None:
    """Adds the graph file, and which of its graphs to use."""
    command.add_argument("input", metavar="IN", help=_GRAPH_FILE)
    command.add_argument(
        "--tags",
        metavar="TAG[,TAG]...",
        help="for a SavedModel with several graphs: use the one with these tags",
    )


def add_most_nodes(command: argparse.ArgumentParser) -> None:
    """Adds how large the graph may be."""
    command.add_argument(
        "--max-nodes",
        type=number_from(1, "a number of nodes"),
        default=_MOST_NODES,
        metavar="N",
        help="only count the nodes of a graph that has more than N, nodes of functions included "
        "({})".format(_MOST_NODES),
    )


def add_config(command: argparse.ArgumentParser) -> None:
    """Adds the config and its settings."""
    command.add_argument(
        "--config",
        action=_Once,
        metavar="FILE",
        help="session options as a text proto, such as configs/async_embedding.pbtxt",
    )
    command.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="settings",
        action="append",
        default=[],
        help="set one option, by its name (threads_num=2) or its full path; may be repeated, and "
        "overrides --config. Without --config, the defaults are "
        + " ".join(DEFAULTS)
        + "; the first of them is off if settings turn on other optimizations only",
    )


class _Once(argparse.Action):
    """An option that may not be repeated, as the second would silently replace the first."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(
                "{} is given twice; use --set to override options of a file".format(option)
            )
        setattr(namespace, self.dest, values)
