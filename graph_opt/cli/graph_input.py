"""Shared by `rewrite`, `inspect` and `plan`: a graph file, and what the passes make of it."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from typing import Any, Iterator, NamedTuple, Tuple

from graph_opt.cli.config_arguments import checked_config
from graph_opt.cli.exit_codes import WrongInput
from graph_opt.cli.progress import Progress
from graph_opt.compat import tf
from graph_opt.config.options import session_options
from graph_opt.inspect.frozen_tables import frozen_remark
from graph_opt.inspect.graph_checks import check_graph
from graph_opt.inspect.graph_files import GraphFile, read_graph
from graph_opt.inspect.shapes import with_shapes, without_shapes
from graph_opt.passes.graph_reports import (
    is_rewritten,
    report_of_lookups,
    report_of_rewritten,
)
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.reporting.report import Report
from graph_opt.reporting.user_lookups import lookups_elsewhere, user_lookups


class OptimizedFile(NamedTuple):
    """A graph file and its rewritten graph.

    Attributes:
      source: The file as it was read.
      graph_def: The rewritten graph; the file's own if there was nothing to do.
      report: What the passes found and did.
      shaped: The file's graph with static shapes, as far as they can be inferred.
      shaped_result: The same of the rewritten graph; None if there was nothing to do.
      rewritten: Whether the file holds a graph that was rewritten before.
    """

    source: GraphFile
    graph_def: Any
    report: Report
    shaped: Any
    shaped_result: Any = None
    rewritten: bool = False


def optimize_file(options: argparse.Namespace) -> OptimizedFile:
    """Reads the file and the config that the arguments name, and runs the passes.

    Raises:
      tf.errors.FailedPreconditionError: The graph was rewritten before.
      tf.errors.OpError: The file, the config or an option is wrong.
    """
    config = checked_config(options)
    progress = Progress(options.input)
    return _optimized(options.input, _read(options, progress), config, progress)


class ShapedFile(NamedTuple):
    """A graph file and its config.

    Attributes:
      graph_def: The graph with static shapes, as far as they can be inferred.
      config: A `graph_opt.ConfigProto`.
    """

    graph_def: Any
    config: Any


def shaped_file(options: argparse.Namespace) -> ShapedFile:
    """Reads the file and the config that the arguments name.

    Raises:
      tf.errors.OpError: The file, the config or an option is wrong.
    """
    config = checked_config(options)
    progress = Progress(options.input)
    return ShapedFile(_shaped(_read(options, progress), progress), config)


def inspect_file(options: argparse.Namespace) -> OptimizedFile:
    """Like `optimize_file`, but a graph that was rewritten before is reported as it is."""
    config = checked_config(options)
    progress = Progress(options.input)
    source = _read(options, progress)
    if not is_rewritten(source.graph_def):
        return _with_frozen_tables(_optimized(options.input, source, config, progress))
    with named(options.input):
        shaped = _shaped(source, progress)
        report = report_of_rewritten(shaped)
    return OptimizedFile(source, source.graph_def, report, shaped, rewritten=True)


def _with_frozen_tables(optimized: OptimizedFile) -> OptimizedFile:
    """Warns if no lookup was found because the graph is frozen."""
    report = optimized.report
    if user_lookups(report) or lookups_elsewhere(report):
        return optimized
    remark = frozen_remark(optimized.source.graph_def)
    if not remark:
        return optimized
    warned = dataclasses.replace(report, warnings=(*report.warnings, remark))
    return optimized._replace(report=warned)


def read_pair(options: argparse.Namespace) -> Tuple[Any, Any]:
    """The graphs of the file that the arguments name, and of the one to compare it with.

    Raises:
      WrongInput: An option is given that says what to rewrite.
      tf.errors.OpError: A file is wrong.
    """
    given = (options.config, options.picture, options.tensorboard, options.dot)
    if options.settings or any(one is not None for one in given):
        raise WrongInput("--diff compares files as they are, and goes with --json and --html only")
    first = _read(options, Progress(options.input))
    second = read_graph(options.diff, None, Progress(options.diff).reading)
    return first.graph_def, second.graph_def


def _read(options: argparse.Namespace, progress: Progress) -> GraphFile:
    tags = None if options.tags is None else [tag for tag in options.tags.split(",") if tag]
    source = read_graph(options.input, tags, progress.reading)
    with named(options.input):
        check_graph(source.graph_def)
    return source


def _shaped(source: GraphFile, progress: Progress) -> Any:
    nodes = len(source.graph_def.node)
    progress.begins("inferring shapes", nodes)
    shaped = with_shapes(source.graph_def)
    progress.begins("looking for lookups", nodes)
    return shaped


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Prefixes errors that concern the graph with its name."""
    try:
        yield
    except tf.errors.OpError as error:
        raise type(error)(None, None, "{}: {}".format(name, error.message)) from error


def _optimized(name: str, source: GraphFile, config: Any, progress: Progress) -> OptimizedFile:
    shaped = _shaped(source, progress)
    session = session_options(config)
    with named(name):
        if not session.ask_for_anything:
            report = report_of_lookups(shaped, session)
            return OptimizedFile(source, source.graph_def, report, shaped)
        optimized = optimize_graph_def(shaped, config)
    inferred = shaped is not source.graph_def
    graph_def = without_shapes(optimized.graph_def) if inferred else optimized.graph_def
    result = None if optimized.graph_def is shaped else optimized.graph_def
    return OptimizedFile(source, graph_def, optimized.report, shaped, result)
