"""What `rewrite` and `inspect` share: a graph file and what the passes make of it."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from graph_opt.cli.config_arguments import checked_config
from graph_opt.compat import tf
from graph_opt.inspect.graph_files import GraphFile, read_graph
from graph_opt.inspect.shapes import with_shapes, without_shapes
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.reporting.report import Report


class OptimizedFile(NamedTuple):
    """A graph file and its rewritten graph.

    Attributes:
      source: The file as it was read.
      graph_def: The rewritten graph; the file's own where nothing was to be done.
      report: What the passes saw and did.
    """

    source: GraphFile
    graph_def: Any
    report: Report


def optimize_file(options: argparse.Namespace) -> OptimizedFile:
    """Reads the file and the config of the arguments and runs the passes.

    Raises:
      tf.errors.FailedPreconditionError: The graph was rewritten before.
      tf.errors.OpError: The file, the config or an option is wrong.
    """
    config = checked_config(options)
    source = read_graph(options.input)
    shaped = with_shapes(source.graph_def)
    try:
        optimized = optimize_graph_def(shaped, config)
    except tf.errors.OpError as error:
        message = "{}: {}".format(options.input, error.message)
        raise type(error)(None, None, message) from error
    inferred = shaped is not source.graph_def
    graph_def = without_shapes(optimized.graph_def) if inferred else optimized.graph_def
    return OptimizedFile(source, graph_def, optimized.report)
