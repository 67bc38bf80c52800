"""Wide as a workload: flags in, model and data out."""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.bench.argument_types import positive, sizes
from tools.bench.workloads.input_pipeline import ALL
from tools.bench.workloads.wide import model
from tools.bench.workloads.wide.data import DataOptions, batches, generated_file, sparse_features
from tools.bench.workloads.workload import INPUT_LAYER, Workload

ROWS = 40960
HELD_OUT_ROWS = 8192
_TRAINING_STREAM = 0
_HELD_OUT_STREAM = 1


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that `workload_from_flags` reads (beside `flags.add_training_flags`)."""
    data, layers = DataOptions(), model.ModelOptions()
    group = parser.add_argument_group("model and data")
    group.add_argument("--rows", type=positive, default=ROWS, help="rows to generate (%(default)s)")
    group.add_argument("--columns", type=positive, default=data.columns)
    group.add_argument("--most-ids", type=positive, default=data.most_ids, help="ids a column")
    group.add_argument("--buckets", type=positive, default=data.buckets)
    group.add_argument("--dimension", type=positive, default=layers.dimension)
    group.add_argument("--layers", type=sizes, default=layers.layers, metavar="64-32")


def workload_from_flags(flags: argparse.Namespace) -> Workload:
    """The workload that the flags ask for; generates its rows if they are not there yet."""
    data = DataOptions(flags.columns, flags.most_ids, flags.buckets)
    layers = model.ModelOptions(flags.dimension, flags.layers, flags.resource_variables)
    return wide_workload(flags.data_dir, flags.rows, data, layers, flags.batch, flags.seed)


def wide_workload(
    directory: Path,
    rows: int,
    data: DataOptions,
    layers: model.ModelOptions,
    batch: int,
    seed: int,
) -> Workload:
    """The wide model over generated rows.

    Args:
      directory: where the generated files are kept.
      rows: rows trained on, over and over.
      data: shape of the rows.
      layers: sizes of the model.
      batch: rows a step.
      seed: of the data.
    """
    held_out_rows = min(HELD_OUT_ROWS, max(1, rows // 5))
    training = generated_file(directory, rows, seed, data, _TRAINING_STREAM)
    held_out = generated_file(directory, held_out_rows, seed, data, _HELD_OUT_STREAM)
    return Workload(
        name="wide",
        training_batches=lambda part=ALL: batches(training, batch, -1, data, part),
        held_out_batches=lambda: batches(held_out, batch, 1, data),
        logits=lambda rows_, label, embed=INPUT_LAYER: model.logits(
            sparse_features(rows_, label, data), layers, data, embed
        ),
    )
