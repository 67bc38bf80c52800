"""`graph-opt plan`: what a step costs before a rewrite and after, without running it."""

from __future__ import annotations

import argparse
import dataclasses

from graph_opt.cli.graph_input import graphs_kept, named, shaped_file
from graph_opt.cli.progress import GRAPH_PARTS, Progress
from graph_opt.cli.sample_batches import sample_batches, with_sample
from graph_opt.cost.cost_plan import cost_plan
from graph_opt.cost.machine_rates import machine_rates
from graph_opt.cost.planned_graph import planned_graph
from graph_opt.inspect.large_values import elided_warnings
from graph_opt.reporting.cost_text import cost_text
from graph_opt.reporting.json_documents import json_document

MEASURING = "measuring this machine"


@graphs_kept()
def handle(options: argparse.Namespace) -> int:
    """Prints the plan; returns the exit code.

    Raises:
      tf.errors.OpError: A file or an option is wrong.
    """
    told = sample_batches(options)
    measuring = {MEASURING: 0.5} if options.measure else {}
    with Progress(options.input, {**GRAPH_PARTS, **measuring}) as progress:
        shaped = shaped_file(options, progress)
        with named(options.input):
            planned = planned_graph(shaped.graph_def, shaped.config, tuple(options.fetches))
            if options.sample:
                told = with_sample(told, planned, options.sample)
            rates = None
            if options.measure:
                progress.begins(MEASURING)
                rates = machine_rates(options.delay_ms / 1000.0, progress.reached)
            found = cost_plan(planned, told, rates)
    left_out = elided_warnings(shaped.graph_def)
    found = dataclasses.replace(found, assumptions=(*found.assumptions, *left_out))
    if options.json:
        print(json_document("plan", dict(found.to_dict(), file=options.input)))
        return 0
    print(cost_text(found, options.input))
    return 0
