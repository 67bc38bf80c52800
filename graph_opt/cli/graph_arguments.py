"""The arguments of `graph-opt rewrite` and `graph-opt inspect`."""

from __future__ import annotations

from typing import Any

from graph_opt.cli.plan_arguments import add_batches
from graph_opt.cli.shared_arguments import add_config, add_input, add_most_nodes


def add_rewrite(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "rewrite",
        summary="fuse the lookups of a graph file, or move them into a prefetch stage",
        example="graph-opt rewrite graph.pb -o fused.pb --set do_group_embedding=true",
        description="Reads a graph file, fuses its embedding lookups or moves them into a prefetch "
        "stage, as the config says, and writes the result.",
    )
    add_input(command)
    add_config(command)
    command.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="file to write; .pbtxt is text, .meta a MetaGraphDef, anything else a binary GraphDef",
    )


def add_inspect(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "inspect",
        summary="show lookups, regions, boundary tensors and refusals of a graph file",
        example="graph-opt inspect graph.pb --html page.html",
        description="Reads a graph file and shows what rewrite would do with it, or which stages "
        "and fused ops a rewritten graph has. Nothing is changed. With --batch, it also shows what "
        "a step costs, as plan does.",
    )
    add_input(command)
    add_most_nodes(command)
    add_config(command)
    add_batches(command)
    command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    command.add_argument("--picture", metavar="FILE.svg", help="also draw the three regions")
    command.add_argument("--html", metavar="FILE.html", help="also write a page for a browser")
    command.add_argument("--dot", metavar="FILE.dot", help="also write the result for Graphviz")
    command.add_argument(
        "--tensorboard",
        metavar="LOGDIR",
        help="also write the graph before and after as runs for TensorBoard, which shows regions "
        "as XLA clusters",
    )
    command.add_argument(
        "--timeline",
        metavar="FILE",
        help="with --html: show the steps recorded in FILE, which graph-opt run --report or "
        "graph_opt.step_trace(session).save wrote",
    )
    command.add_argument(
        "--diff",
        metavar="OTHER",
        help="instead compare the graph with the graph in another file: what was added, moved, "
        "fused or lost. Exit code: 0 alike, 1 different",
    )
