"""What `graph-opt plan` and `graph-opt inspect` are told of batches and steps."""

from __future__ import annotations

from typing import Any

from graph_opt.cli.argument_types import number_from, number_of
from graph_opt.cli.shared_arguments import add_config, add_input, add_most_nodes


def add_plan(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "plan",
        summary="count what a step of a graph file costs, before and after a rewrite",
        example="graph-opt plan graph.pb --batch 512",
        description="Reads a graph file and counts, without running it: ops; rows of tables that "
        "are read; calls, tensors and bytes between tasks; collectives; and the memory of "
        "variables. It knows shapes, devices and a batch size. Anything else that it would need is "
        "named, with the flag that gives it, and is not counted. Parameter servers are assumed to "
        "have graph_opt's ops.",
    )
    add_batches(command)
    command.add_argument(
        "--length",
        action="append",
        default=[],
        dest="lengths",
        metavar="[REGEX=]N",
        help="the first dimension of tensors whose names match; may be repeated",
    )
    command.add_argument(
        "--fetch",
        action="append",
        default=[],
        dest="fetches",
        metavar="NODE",
        help="what a step fetches; may be repeated. By default, the training step that updates "
        "most variables, or else everything that depends on lookups",
    )
    command.add_argument(
        "--measure",
        action="store_true",
        help="measure what ops, rows and calls between tasks cost on this machine (a few seconds), "
        "and estimate the time of a step without its layers",
    )
    command.add_argument(
        "--delay-ms",
        type=number_of("a number of milliseconds, 0 or more", lambda number: number >= 0.0),
        default=0.0,
        metavar="D",
        help="for --measure: latency to parameter servers, each way",
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    add_input(command)
    add_most_nodes(command)
    add_config(command)


def add_batches(command: Any) -> None:
    """Adds the options that tell what batches have."""
    command.add_argument("--batch", type=number_from(1), metavar="N", help="rows of a batch")
    command.add_argument(
        "--ids-per-row",
        action="append",
        default=[],
        metavar="[REGEX=]N",
        help="average number of ids in a row, for tables or tensors whose names match; may be "
        "repeated, and the last that matches counts",
    )
    command.add_argument(
        "--distinct-share",
        action="append",
        default=[],
        metavar="[REGEX=]S",
        help="share of a batch's ids that are different, by table; may be repeated. By default 1, "
        "so figures that depend on it are upper bounds",
    )
    command.add_argument(
        "--sample",
        metavar="FILE.tfrecord",
        help="take both figures from a file of tf.train.Examples, gzipped if it ends in .gz, for "
        "lookups whose features have names in the graph",
    )
