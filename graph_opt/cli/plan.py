"""`graph-opt plan`: what a step costs before a rewrite and after, without running it."""

from __future__ import annotations

import argparse
from typing import Iterable, Tuple

from graph_opt.cli.exit_codes import WrongInput
from graph_opt.cli.graph_input import named, shaped_file
from graph_opt.cost.assumptions import (
    DISTINCT_SHARE,
    IDS_PER_ROW,
    LENGTH,
    Assumptions,
    NumberFor,
)
from graph_opt.cost.cost_plan import cost_plan
from graph_opt.cost.machine_rates import machine_rates
from graph_opt.cost.planned_graph import PlannedGraph, planned_graph
from graph_opt.cost.sampled_ids import sampled_ids
from graph_opt.reporting.cost_text import cost_text
from graph_opt.reporting.text import json_text


def handle(options: argparse.Namespace) -> int:
    """Prints the plan; returns the exit code.

    Raises:
      WrongInput: Options contradict each other.
      tf.errors.OpError: A file or an option is wrong.
    """
    if options.delay_ms and not options.measure:
        raise WrongInput("--delay-ms is for the rates that --measure measures: say both")
    if options.sample and options.batch is None:
        raise WrongInput("--sample counts the different ids of batches: say --batch N, too")
    told = assumptions(options)
    shaped = shaped_file(options)
    with named(options.input):
        planned = planned_graph(shaped.graph_def, shaped.config, tuple(options.fetches))
        if options.sample:
            told = _with_sample(told, planned, options.sample)
        rates = machine_rates(options.delay_ms / 1000.0) if options.measure else None
        found = cost_plan(planned, told, rates)
    if options.json:
        print(json_text(dict(found.to_dict(), file=options.input)))
        return 0
    print(cost_text(found, options.input))
    return 0


def assumptions(options: argparse.Namespace) -> Assumptions:
    """What the arguments tell about batches.

    Raises:
      tf.errors.InvalidArgumentError: An option is neither a number nor `REGEX=NUMBER`.
    """
    return Assumptions(
        batch=options.batch,
        ids_per_row=_numbers(IDS_PER_ROW, options.ids_per_row),
        distinct_share=_numbers(DISTINCT_SHARE, options.distinct_share),
        lengths=_numbers(LENGTH, options.lengths),
    )


def _numbers(option: str, texts: Iterable[str]) -> Tuple[NumberFor, ...]:
    return tuple(NumberFor.parse(option, text) for text in texts)


def _with_sample(told: Assumptions, planned: PlannedGraph, path: str) -> Assumptions:
    """What options say goes before what the sample says."""
    sampled = sampled_ids(planned.graph_def, path, told.batch or 1)
    return Assumptions(
        batch=told.batch,
        ids_per_row=(*sampled.ids_per_row, *told.ids_per_row),
        distinct_share=(*sampled.distinct_share, *told.distinct_share),
        lengths=told.lengths,
        notes=sampled.notes,
    )
