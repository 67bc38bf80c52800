"""`graph-opt rewrite`: reads a graph file and writes the rewritten graph."""

from __future__ import annotations

import argparse
import sys

from graph_opt.cli.exit_codes import REFUSED
from graph_opt.cli.graph_input import graphs_kept, optimize_file
from graph_opt.cli.messages import say_wrong
from graph_opt.cli.progress import GRAPH_PARTS, WRITING, Progress
from graph_opt.inspect.graph_files import write_graph
from graph_opt.reporting.report import Report
from graph_opt.reporting.text import refusals_text


@graphs_kept()
def handle(options: argparse.Namespace) -> int:
    """Rewrites the file; returns the exit code.

    Raises:
      tf.errors.FailedPreconditionError: The graph was rewritten before.
      tf.errors.OpError: A file or an option is wrong.
    """
    with Progress(options.input, {**GRAPH_PARTS, WRITING: 0.1}) as progress:
        optimized = optimize_file(options, progress)
        does_something = bool(optimized.report.stages or optimized.report.fused)
        if does_something:
            progress.begins(WRITING)
            write_graph(optimized.result, options.output, like=optimized.source)
    if not does_something:
        return _refused(options.input, optimized.report)
    print(optimized.report)
    return 0


def _refused(name: str, report: Report) -> int:
    say_wrong("", "{}: no lookup can be moved or fused, nothing was written".format(name))
    for text in (refusals_text(report), *report.left_alone, *report.warnings):
        if text:
            print(text, file=sys.stderr)
    return REFUSED
