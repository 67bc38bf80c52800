"""The arguments of `graph-opt`. Imports nothing heavy: `--help` and usage errors come at once."""

from __future__ import annotations

import argparse
from typing import Any

from graph_opt.cli.completion import add_completion
from graph_opt.cli.convert_arguments import add_convert
from graph_opt.cli.export_arguments import add_export, add_update
from graph_opt.cli.graph_arguments import add_inspect, add_rewrite
from graph_opt.cli.parser import Parser, Program
from graph_opt.cli.plan_arguments import add_plan
from graph_opt.cli.script_arguments import add_check, add_cluster, add_proxy, add_run


class _Version(argparse.Action):
    """Prints what is installed, and ends the process."""

    HELP = "print the releases of graph_opt, TensorFlow and the compiled ops, and exit"

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from graph_opt.cli.version import lines

        print("\n".join(lines()), flush=True)
        parser.exit()


def parser() -> Program:
    """The parser; `command` of its result is the name of the chosen command."""
    program = Program(
        prog="graph-opt",
        description="Fuses embedding lookups of TensorFlow graphs, and runs them ahead of steps.",
    )
    program.add_argument("--version", action=_Version, nargs=0, help=_Version.HELP)
    commands = program.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    commands.required = True
    for add in (
        add_run,
        add_check,
        add_cluster,
        add_proxy,
        add_rewrite,
        add_inspect,
        add_plan,
        add_export,
        add_update,
        add_convert,
        add_completion,
    ):
        add(commands)
    return program
