"""What arguments tell of batches, for the plan of what a step costs."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Iterable, Tuple

from graph_opt.cost.assumptions import DISTINCT_SHARE, IDS_PER_ROW, LENGTH, Assumptions, NumberFor
from graph_opt.cost.planned_graph import PlannedGraph
from graph_opt.cost.sampled_ids import sampled_ids


def sample_batches(options: argparse.Namespace) -> Assumptions:
    """What the arguments tell about batches.

    Raises:
      tf.errors.InvalidArgumentError: An option is neither a number nor `REGEX=NUMBER`.
    """
    return Assumptions(
        batch=options.batch,
        ids_per_row=_numbers(IDS_PER_ROW, options.ids_per_row),
        distinct_share=_numbers(DISTINCT_SHARE, options.distinct_share),
        lengths=_numbers(LENGTH, getattr(options, "lengths", ())),
    )


def with_sample(told: Assumptions, planned: PlannedGraph, path: str) -> Assumptions:
    """Adds what a sample says; what options say goes before it.

    Raises:
      tf.errors.OpError: The sample cannot be read, or says nothing of the graph's lookups.
    """
    sampled = sampled_ids(planned.graph_def, path, told.batch or 1)
    return dataclasses.replace(
        told,
        ids_per_row=(*sampled.ids_per_row, *told.ids_per_row),
        distinct_share=(*sampled.distinct_share, *told.distinct_share),
        notes=sampled.notes,
    )


def _numbers(option: str, texts: Iterable[str]) -> Tuple[NumberFor, ...]:
    return tuple(NumberFor.parse(option, text) for text in texts)
