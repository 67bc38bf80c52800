"""Shared by `rewrite`, `inspect` and `plan`: a graph file, and what the passes make of it."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple, Union

from graph_opt.cli.config_arguments import checked_config
from graph_opt.cli.progress import Progress
from graph_opt.compat import tf
from graph_opt.config.options import session_options
from graph_opt.cost.planned_graph import rewritten_graph
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.shared_views import views_shared
from graph_opt.inspect.frozen_tables import frozen_remark
from graph_opt.inspect.graph_checks import check_graph
from graph_opt.inspect.graph_files import GraphFile, read_graph
from graph_opt.inspect.graph_parts import EVERYTHING, Limits
from graph_opt.inspect.large_values import LARGE_VALUE_BYTES, elided_warnings
from graph_opt.inspect.shapes import add_shapes, without_shapes
from graph_opt.passes.graph_reports import (
    is_rewritten,
    report_of_lookups,
    report_of_rewritten,
)
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.reporting.counted_graph import CountedGraph
from graph_opt.reporting.report import Report
from graph_opt.reporting.user_lookups import lookups_elsewhere, user_lookups
from graph_opt.saved_models.graphs import FUSED, graph_tags, stock_tags

_MOST_GRAPH_BYTES = 1 << 30


class OptimizedFile(NamedTuple):
    """A graph file and its rewritten graph.

    Attributes:
      source: The file, whose graph has got static shapes, as far as they can be inferred.
      report: What the passes found and did.
      result: The rewritten graph; None if there was nothing to do.
      rewritten: Whether the file holds a graph that was rewritten before.
    """

    source: GraphFile
    report: Report
    result: Any = None
    rewritten: bool = False


def optimize_file(options: argparse.Namespace, progress: Progress) -> OptimizedFile:
    """Reads the file and the config that the arguments name, and runs the passes.

    The result has static shapes only if the file has.

    Raises:
      tf.errors.FailedPreconditionError: The graph was rewritten before.
      tf.errors.OpError: The file, the config or an option is wrong.
    """
    config = checked_config(options).whole
    source = _read(options, progress, EVERYTHING)
    _refuse_counted(options.input, source)
    inferred = _add_shapes(source, progress)
    with named(options.input):
        if not session_options(config).ask_for_anything:
            return _as_it_is(source, config)
        optimized = optimize_graph_def(source.graph_def, config)
    report = _with_elided(optimized.report, source.graph_def)
    if optimized.graph_def is source.graph_def:
        return OptimizedFile(source, report)
    result = without_shapes(optimized.graph_def) if inferred else optimized.graph_def
    return OptimizedFile(source, report, result)


class ShapedFile(NamedTuple):
    """A graph file and its config.

    Attributes:
      source: The file, whose graph has static shapes, as far as they can be inferred.
      config: A `graph_opt.ConfigProto`.
      stock: Of a folder that `graph-opt export` wrote, if no tags were given, the graph in
        TensorFlow's own ops, beside the one with fused lookups.
    """

    source: GraphFile
    config: Any
    stock: Optional[GraphFile] = None


def shaped_file(options: argparse.Namespace, progress: Progress) -> ShapedFile:
    """Reads the file and the config that the arguments name.

    Raises:
      tf.errors.OpError: The file, the config or an option is wrong.
    """
    config = checked_config(options).whole
    source = _read_within(options, progress)
    _refuse_counted(options.input, source)
    _add_shapes(source, progress)
    tags = served_tags(source)
    if not tags or options.tags is not None:
        return ShapedFile(source, config)
    stock = read_graph(options.input, stock_tags(tags), progress.reached, _limits(options))
    add_shapes(stock.graph_def)
    return ShapedFile(source, config, stock)


def inspect_file(
    options: argparse.Namespace, progress: Progress
) -> Union[OptimizedFile, CountedGraph]:
    """Like `optimize_file`, but a graph that was rewritten before is reported as it is.

    Large values are left out, and a graph beyond the limits is only counted.
    """
    config = checked_config(options).whole
    source = _read_within(options, progress)
    if source.counted is not None:
        return source.counted
    if not is_rewritten(source.graph_def):
        return _with_frozen_tables(_inspected(options.input, source, config, progress))
    _add_shapes(source, progress)
    with named(options.input):
        report = _with_elided(report_of_rewritten(source.graph_def), source.graph_def)
    return OptimizedFile(source, report, rewritten=True)


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


def read_pair(options: argparse.Namespace, progress: Progress) -> Tuple[Any, Any]:
    """The graphs of the file that the arguments name, and of the one to compare it with.

    Raises:
      tf.errors.OpError: A file is wrong.
    """
    progress.begins("reading")
    first = _read_within(options, progress)
    _refuse_counted(options.input, first)
    progress.begins("reading the other")
    second = read_graph(options.diff, None, progress.reached, _limits(options))
    _refuse_counted(options.diff, second)
    return first.graph_def, second.graph_def


def served_tags(source: GraphFile) -> List[str]:
    """The tags of a graph that `graph-opt export` wrote; empty for all others."""
    meta_graph = source.meta_graph_def
    tags = [] if meta_graph is None else graph_tags(meta_graph)
    return tags if FUSED in tags else []


def tags_of(options: argparse.Namespace) -> Optional[List[str]]:
    """The tags that `--tags` names; None without it."""
    return None if options.tags is None else [tag for tag in options.tags.split(",") if tag]


def _read(
    options: argparse.Namespace, progress: Progress, limits: Limits, preferred: str = ""
) -> GraphFile:
    tags = tags_of(options)
    source = read_graph(options.input, tags, progress.reached, limits, preferred)
    with named(options.input):
        check_graph(source.graph_def)
    return source


def _read_within(options: argparse.Namespace, progress: Progress) -> GraphFile:
    """Reads the graph without its large values, or counts its nodes if they are too many.

    Without tags, it is the one with fused lookups of a folder that `graph-opt export` wrote.
    """
    return _read(options, progress, _limits(options), FUSED)


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(options.max_nodes, LARGE_VALUE_BYTES, _MOST_GRAPH_BYTES)


def _refuse_counted(name: str, source: GraphFile) -> None:
    if source.counted is not None:
        raise tf.errors.ResourceExhaustedError(
            None,
            None,
            "{}: the graph has {:,} nodes, {:,} of them in functions: {}; graph-opt inspect counts "
            "them".format(
                name,
                source.counted.nodes + source.counted.function_nodes,
                source.counted.function_nodes,
                source.counted.reason,
            ),
        )


def _add_shapes(source: GraphFile, progress: Progress) -> bool:
    """Adds static shapes to the graph; returns whether it had none before."""
    progress.begins("inferring shapes")
    added = add_shapes(source.graph_def)
    progress.begins("looking for lookups")
    return added


@contextlib.contextmanager
def graphs_kept() -> Iterator[None]:
    """For commands whose graphs stay until they end: each is indexed once, and none collected."""
    with collection_paused(), views_shared():  # The views are gone before anything is collected.
        yield


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Prefixes errors that concern the graph with its name."""
    try:
        yield
    except tf.errors.OpError as error:
        raise type(error)(None, None, "{}: {}".format(name, error.message)) from error


def _inspected(name: str, source: GraphFile, config: Any, progress: Progress) -> OptimizedFile:
    """As if parameter servers had loaded graph_opt's ops, which a plan of the step does, too."""
    _add_shapes(source, progress)
    session = session_options(config)
    with named(name):
        if not session.ask_for_anything:
            return _as_it_is(source, config)
        planned = rewritten_graph(source.graph_def, session)
    return OptimizedFile(source, _with_elided(planned.report, source.graph_def), planned.rewritten)


def _as_it_is(source: GraphFile, config: Any) -> OptimizedFile:
    report = report_of_lookups(source.graph_def, session_options(config))
    return OptimizedFile(source, _with_elided(report, source.graph_def))


def _with_elided(report: Report, graph_def: Any) -> Report:
    warnings = (*report.warnings, *elided_warnings(graph_def))
    return dataclasses.replace(report, warnings=warnings)
