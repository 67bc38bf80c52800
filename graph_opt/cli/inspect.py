"""`graph-opt inspect`: shows what a rewrite would find, move and leave alone."""

from __future__ import annotations

import argparse
import json
import os

from graph_opt.cli.exit_codes import DIFFERENT, WrongInput
from graph_opt.cli.graph_input import OptimizedFile, inspect_file, read_pair
from graph_opt.inspect.dot import graph_dot
from graph_opt.inspect.graph_diff import graph_diff
from graph_opt.inspect.graph_files import write_text
from graph_opt.inspect.picture import regions_svg
from graph_opt.inspect.tensorboard import write_for_tensorboard
from graph_opt.passes.graph_reports import report_of_rewritten
from graph_opt.report_page.page import page_html
from graph_opt.report_page.page_content import PageSource, page_content
from graph_opt.report_page.recorded_steps import read_steps
from graph_opt.reporting.text import report_text


def handle(options: argparse.Namespace) -> int:
    """Prints the report; returns the exit code.

    Raises:
      WrongInput: Options contradict each other.
      tf.errors.OpError: A file or an option is wrong.
    """
    if options.timeline is not None and (options.html is None or options.diff is not None):
        raise WrongInput("--timeline is shown in a page: give --html FILE.html, and no --diff")
    if options.diff is not None:
        return _compare(options)
    steps = () if options.timeline is None else tuple(read_steps(options.timeline))
    optimized = inspect_file(options)
    nodes = len(optimized.source.graph_def.node)
    if options.picture is not None:
        write_text(regions_svg(optimized.report), options.picture)
    if options.html is not None:
        shown = PageSource(
            options.input, optimized.report, optimized.shaped, optimized.shaped_result, steps
        )
        write_text(page_html(page_content(shown)), options.html)
    if options.dot is not None:
        write_text(graph_dot(optimized.shaped_result or optimized.shaped), options.dot)
    if options.tensorboard is not None:
        _write_runs(optimized, options.tensorboard)
    if options.json:
        plain = optimized.report.to_dict()
        plain.update(file=options.input, nodes=nodes, rewritten=optimized.rewritten)
        print(json.dumps(plain, indent=2, sort_keys=True))
        return 0
    title = "{}: {} nodes".format(options.input, nodes)
    if optimized.rewritten:
        title += ", rewritten before: this is what it consists of"
    print(report_text(optimized.report, title))
    return 0


def _write_runs(optimized: OptimizedFile, folder: str) -> None:
    """A run for each graph, among which TensorBoard lets one choose."""
    graphs = {"before": optimized.shaped, "after": optimized.shaped_result}
    for label, graph_def in graphs.items():
        if graph_def is not None:
            write_for_tensorboard(graph_def, os.path.join(folder, label))


def _compare(options: argparse.Namespace) -> int:
    before, after = read_pair(options)
    diff = graph_diff(before, after)
    title = "{} and {}".format(options.input, options.diff)
    if options.html is not None:
        report = report_of_rewritten(after)
        write_text(page_html(page_content(PageSource(title, report, before, after))), options.html)
    if options.json:
        print(json.dumps(diff.to_dict(), indent=2, sort_keys=True))
    else:
        print("{}: {}".format(title, diff))
    return 0 if diff.is_empty else DIFFERENT
