"""`graph-opt plan`: what a step costs before a rewrite and after, without running it."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Tuple

from graph_opt.cli.graph_input import ShapedFile, graphs_kept, named, served_tags, shaped_file
from graph_opt.cli.progress import GRAPH_PARTS, Progress
from graph_opt.cli.sample_batches import sample_batches, with_sample
from graph_opt.cost.cost_plan import cost_plan
from graph_opt.cost.machine_rates import machine_rates
from graph_opt.cost.planned_graph import PlannedGraph, planned_graph
from graph_opt.inspect.graph_files import GraphFile
from graph_opt.inspect.large_values import elided_warnings
from graph_opt.passes.graph_reports import report_of_rewritten
from graph_opt.reporting.cost_text import cost_text
from graph_opt.reporting.json_documents import json_document
from graph_opt.reporting.report import Report
from graph_opt.reporting.text import served_text
from graph_opt.saved_models.graphs import stock_tags
from graph_opt.saved_models.named_nodes import default_signature, named_parts

MEASURING = "measuring this machine"
COUNTING = "counting"


@graphs_kept()
def handle(options: argparse.Namespace) -> int:
    """Prints the plan; returns the exit code.

    Raises:
      tf.errors.OpError: A file or an option is wrong.
    """
    told = sample_batches(options)
    measuring = {MEASURING: 0.5} if options.measure else {}
    with Progress(options.input, {**GRAPH_PARTS, **measuring, COUNTING: 0.3}) as progress:
        shaped = shaped_file(options, progress)
        with named(options.input):
            planned = _planned(shaped, tuple(options.fetches))
            if options.sample:
                told = with_sample(told, planned, options.sample)
            rates = None
            if options.measure:
                progress.begins(MEASURING)
                rates = machine_rates(options.delay_ms / 1000.0, progress.reached)
            progress.begins(COUNTING)
            found = cost_plan(planned, told, rates)
    left_out = elided_warnings(shaped.source.graph_def)
    found = dataclasses.replace(found, assumptions=(*found.assumptions, *left_out))
    served = report_of_rewritten(shaped.source.graph_def) if _is_served(shaped) else Report()
    if options.json:
        tables = [dataclasses.asdict(table) for table in served.served]
        print(json_document("plan", dict(found.to_dict(), file=options.input, served=tables)))
        return 0
    print(cost_text(found, _title(options.input, shaped)))
    if served.served:
        print("\n" + served_text(served))
    return 0


def _is_served(shaped: ShapedFile) -> bool:
    return bool(served_tags(shaped.source))


def _title(name: str, shaped: ShapedFile) -> str:
    if shaped.stock is None:
        return name
    tags = served_tags(shaped.source)
    return "{}: a step is a request; before: tags {}, after: tags {}".format(
        name, ",".join(stock_tags(tags)), ",".join(tags)
    )


def _planned(shaped: ShapedFile, fetches: Tuple[str, ...]) -> PlannedGraph:
    """The graph and what passes make of it; of an export, both of its graphs.

    A request fetches the outputs of a signature.
    """
    graph_def = shaped.source.graph_def
    if not _is_served(shaped):
        return planned_graph(graph_def, shaped.config, fetches)
    signature = default_signature(shaped.source.meta_graph_def)
    own = fetches or _outputs(shaped.source, signature)
    if shaped.stock is None:
        return PlannedGraph(graph_def, fetches=own)
    before = fetches or _outputs(shaped.stock, signature)
    return PlannedGraph(shaped.stock.graph_def, graph_def, fetches=before, rewritten_fetches=own)


def _outputs(source: GraphFile, signature: str) -> Tuple[str, ...]:
    assert source.meta_graph_def is not None
    outputs = source.meta_graph_def.signature_def[signature].outputs
    parts = [part for _, info in sorted(outputs.items()) for part in named_parts(info)]
    return tuple(dict.fromkeys(part.name for part in parts if part.name))
