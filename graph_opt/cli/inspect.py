"""`graph-opt inspect`: what a rewrite would find, move and leave alone, without doing it."""

from __future__ import annotations

import argparse
import json

from graph_opt.cli.graph_input import optimize_file
from graph_opt.inspect.graph_files import write_text
from graph_opt.inspect.picture import regions_svg
from graph_opt.reporting.text import report_text


def handle(options: argparse.Namespace) -> int:
    """Prints the report; returns the exit code.

    Raises:
      tf.errors.FailedPreconditionError: The graph was rewritten before.
      tf.errors.OpError: A file or an option is wrong.
    """
    optimized = optimize_file(options)
    nodes = len(optimized.source.graph_def.node)
    if options.picture is not None:
        write_text(regions_svg(optimized.report), options.picture)
    if options.json:
        plain = dict(optimized.report.to_dict(), file=options.input, nodes=nodes)
        print(json.dumps(plain, indent=2, sort_keys=True))
        return 0
    print(report_text(optimized.report, "{}: {} nodes".format(options.input, nodes)))
    return 0
