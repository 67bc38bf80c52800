"""`graph-opt inspect`: shows what a rewrite would find, move and leave alone."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Optional, Tuple

from graph_opt.cli.exit_codes import DIFFERENT, REFUSED
from graph_opt.cli.graph_input import (
    OptimizedFile,
    graphs_kept,
    inspect_file,
    read_pair,
    served_tags,
)
from graph_opt.cli.messages import say_wrong, warn
from graph_opt.cli.progress import GRAPH_PARTS, WRITING, Progress
from graph_opt.cli.sample_batches import sample_batches, with_sample
from graph_opt.compat import tf
from graph_opt.cost.cost_plan import cost_plan
from graph_opt.cost.planned_graph import PlannedGraph
from graph_opt.inspect.dot import graph_dot
from graph_opt.inspect.graph_diff import graph_diff
from graph_opt.inspect.graph_files import write_text
from graph_opt.inspect.picture import regions_svg
from graph_opt.inspect.shapes import add_missing_shapes
from graph_opt.inspect.tensorboard import write_for_tensorboard
from graph_opt.passes.graph_reports import report_of_rewritten, with_regions_of
from graph_opt.report_page.page import page_html
from graph_opt.report_page.page_content import PageSource, page_content
from graph_opt.report_page.recorded_steps import read_steps
from graph_opt.reporting.cost import CostPlan
from graph_opt.reporting.cost_text import cost_text
from graph_opt.reporting.counted_graph import CountedGraph, counted_text
from graph_opt.reporting.json_documents import json_document
from graph_opt.reporting.step_records import StepRecord
from graph_opt.reporting.text import report_text


@graphs_kept()
def handle(options: argparse.Namespace) -> int:
    """Prints the report; returns the exit code.

    Raises:
      tf.errors.OpError: A file or an option is wrong.
    """
    if options.diff is not None:
        return _compare(options)
    steps = () if options.timeline is None else tuple(read_steps(options.timeline))
    with Progress(options.input, {**GRAPH_PARTS, WRITING: 0.3}) as progress:
        found = inspect_file(options, progress)
        if not isinstance(found, CountedGraph):
            progress.begins(WRITING)
            optimized = _with_region_counts(found)
            cost = _cost(options, optimized)
            _write_files(options, optimized, steps, cost)
    if isinstance(found, CountedGraph):
        return _show_counted(options, found)
    nodes = len(optimized.source.graph_def.node)
    if options.json:
        plain = optimized.report.to_dict()
        plain.update(file=options.input, nodes=nodes, rewritten=optimized.rewritten)
        if cost is not None:
            plain["cost"] = cost.to_dict()
        print(json_document("inspect", plain))
        return 0
    print(report_text(optimized.report, _title(options.input, optimized)))
    if cost is not None:
        print("\n" + cost_text(cost, "cost"))
    return 0


def _title(name: str, optimized: OptimizedFile) -> str:
    """The first line: how many nodes the file has, and what became of them."""
    title = "{}: {} nodes".format(name, len(optimized.source.graph_def.node))
    if served_tags(optimized.source):
        return title + ", of the graph that serves with fused lookups (tags {})".format(
            ",".join(served_tags(optimized.source))
        )
    if optimized.rewritten:
        return title + ", rewritten before: this is what it consists of"
    if optimized.result is None:
        return title
    title += ", {} once it is rewritten".format(len(optimized.result.node))
    idle = optimized.report.regions.get("idle")
    if idle:
        title += ", of which {} are kept for their names and run in no step".format(idle)
    return title


def _with_region_counts(optimized: OptimizedFile) -> OptimizedFile:
    """Counts regions in the graph that is shown, as the page does."""
    if optimized.rewritten or not optimized.report.regions:
        return optimized
    shown = optimized.source.graph_def if optimized.result is None else optimized.result
    return optimized._replace(report=with_regions_of(optimized.report, shown))


def _show_counted(options: argparse.Namespace, graph: CountedGraph) -> int:
    """Prints what is known of a graph that is too large; refuses what needs more."""
    if options.json:
        counted = dict(counted=graph.to_dict(), file=options.input, nodes=graph.nodes)
        print(json_document("count", counted))
    else:
        print(counted_text(graph, options.input))
    wanted = {
        "--picture": options.picture,
        "--html": options.html,
        "--dot": options.dot,
        "--tensorboard": options.tensorboard,
        "--batch": options.batch,
    }
    left = [option for option, value in wanted.items() if value is not None]
    if left:
        sys.stdout.flush()
        text = "{}: nothing was done for {}: {}"
        say_wrong("", text.format(options.input, ", ".join(left), graph.reason))
    return REFUSED if left else 0


def _write_files(
    options: argparse.Namespace,
    optimized: OptimizedFile,
    steps: Tuple[StepRecord, ...],
    cost: Optional[CostPlan],
) -> None:
    if options.picture is not None:
        write_text(regions_svg(optimized.report), options.picture)
    if options.html is not None:
        shown = PageSource(
            options.input,
            optimized.report,
            optimized.source.graph_def,
            optimized.result,
            steps,
            cost=cost,
        )
        write_text(page_html(page_content(shown)), options.html)
    if options.dot is not None:
        write_text(graph_dot(optimized.result or optimized.source.graph_def), options.dot)
    if options.tensorboard is not None:
        _write_runs(optimized, options.tensorboard)


def _cost(options: argparse.Namespace, optimized: OptimizedFile) -> Optional[CostPlan]:
    """What a step costs, if it is known how large batches are."""
    if options.batch is None:
        return None
    if optimized.result is not None:
        add_missing_shapes(optimized.result)
    planned = PlannedGraph(optimized.source.graph_def, optimized.result, optimized.report)
    told = sample_batches(options)
    if options.sample:
        told = with_sample(told, planned, options.sample)
    try:
        return cost_plan(planned, told)
    except tf.errors.InvalidArgumentError as error:
        warn("", "no cost of a step: " + error.message)
        return None


def _write_runs(optimized: OptimizedFile, folder: str) -> None:
    """A run for each graph, among which TensorBoard lets one choose."""
    graphs = {"before": optimized.source.graph_def, "after": optimized.result}
    for label, graph_def in graphs.items():
        if graph_def is not None:
            write_for_tensorboard(graph_def, os.path.join(folder, label))


def _compare(options: argparse.Namespace) -> int:
    parts = {"reading": 1.0, "reading the other": 1.0, "comparing": 1.0}
    with Progress(options.input, parts) as progress:
        before, after = read_pair(options, progress)
        progress.begins("comparing")
        diff = graph_diff(before, after)
    title = "{} and {}".format(options.input, options.diff)
    if options.html is not None:
        report = report_of_rewritten(after)
        write_text(page_html(page_content(PageSource(title, report, before, after))), options.html)
    if options.json:
        print(json_document("diff", dict(diff.to_dict(), file=options.input, other=options.diff)))
    else:
        print("{}: {}".format(title, diff))
    return 0 if diff.is_empty else DIFFERENT
