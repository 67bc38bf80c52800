"""The arguments of `graph-opt rewrite` and `graph-opt inspect`."""

from __future__ import annotations

from typing import Any

from graph_opt.cli.plan_arguments import add_batches
from graph_opt.cli.shared_arguments import add_config, add_input, add_most_nodes


def add_rewrite(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "rewrite",
        summary="split the lookups of a graph file into a prefetch stage",
        example="graph-opt rewrite graph.pb -o fused.pb --set do_group_embedding=true",
        description="Reads a graph file, moves its embedding lookups into a prefetch stage and "
        "writes the result.",
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
        "and fused ops a rewritten one has. Nothing is changed. With --batch, also what a step "
        "costs, as plan tells it.",
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
        help="with --html: show the steps that were recorded in FILE, a page that graph-opt run "
        "--report wrote or what graph_opt.step_trace(session).save(FILE) did",
    )
    command.add_argument(
        "--diff",
        metavar="OTHER",
        help="instead compare the graph with that of another file: what was added, moved, fused, "
        "lost. Exit code: 0 alike, 1 different",
    )
