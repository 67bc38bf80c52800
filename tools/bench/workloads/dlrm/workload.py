"""DLRM as a workload: flags in, model and data out."""

from __future__ import annotations

import argparse
from typing import List, NamedTuple, Tuple

from tools.bench.argument_types import count, positive, sizes
from tools.bench.workloads.dlrm import criteo, model
from tools.bench.workloads.dlrm.generated import generated_files
from tools.bench.workloads.input_pipeline import ALL
from tools.bench.workloads.workload import INPUT_LAYER, Workload

GENERATED_ROWS = 800000
GENERATED_HELD_OUT_ROWS = 40000
HELD_OUT_EVERY = 10


class DataFiles(NamedTuple):
    """Files to train on and to score on, and which lines of them."""

    training: List[str]
    held_out: List[str]
    held_out_every: int


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that `workload_from_flags` reads (beside `flags.add_training_flags`)."""
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data",
        nargs="+",
        metavar="FILE",
        help="files in Criteo's format (globs allowed); none: generated rows",
    )
    data.add_argument(
        "--held-out", nargs="+", metavar="FILE", help="files to score on, in place of lines of DATA"
    )
    data.add_argument(
        "--held-out-every",
        type=positive,
        default=HELD_OUT_EVERY,
        help="without --held-out: every so many lines one is scored on (%(default)s)",
    )
    data.add_argument("--epochs", type=count, default=0, help="times to read the rows, 0: no limit")
    data.add_argument("--shuffle-rows", type=count, default=0, help="rows shuffled, 0: none")
    data.add_argument("--rows", type=positive, default=GENERATED_ROWS, help="rows to generate")
    sizes_group = parser.add_argument_group("model")
    defaults = model.ModelOptions()
    sizes_group.add_argument("--buckets", type=positive, default=defaults.buckets)
    sizes_group.add_argument("--dimension", type=positive, default=defaults.dimension)
    sizes_group.add_argument("--bottom", type=sizes, default=defaults.bottom, metavar="512-256-64")
    sizes_group.add_argument("--top", type=sizes, default=defaults.top, metavar="512-256")
    sizes_group.add_argument(
        "--dynamic", action="store_true", help="tables with a row for each id, in place of buckets"
    )
    sizes_group.add_argument(
        "--most-rows", type=count, default=0, help="of a dynamic table, 0: any number"
    )
    sizes_group.add_argument(
        "--initial-stddev", type=float, help="of rows; without, 1 over the root of the dimension"
    )
    sizes_group.add_argument("--table-shards", type=positive, default=1, help="parts of each table")


def workload_from_flags(flags: argparse.Namespace) -> Workload:
    """The workload that the flags ask for; generates rows where no files are given.

    Raises:
      FileNotFoundError: a pattern matches no file.
      ValueError: a file is not in Criteo's format.
    """
    files = data_files(flags)
    options = model.ModelOptions(
        buckets=flags.buckets,
        dimension=flags.dimension,
        bottom=flags.bottom,
        top=flags.top,
        table_shards=flags.table_shards,
        resource_variables=flags.resource_variables,
        dynamic=flags.dynamic,
        most_rows=flags.most_rows,
        initial_stddev=flags.initial_stddev,
    )
    return dlrm_workload(
        files, options, flags.batch, flags.epochs or -1, flags.shuffle_rows, flags.seed
    )


def dlrm_workload(
    files: DataFiles,
    options: model.ModelOptions,
    batch: int,
    epochs: int = -1,
    shuffle_rows: int = 0,
    seed: int = 0,
) -> Workload:
    """DLRM over files in Criteo's format; see `criteo.batches` for the arguments."""
    return Workload(
        name="dlrm",
        training_batches=lambda part=ALL: criteo.batches(
            files.training,
            batch,
            epochs,
            criteo.Selection(files.held_out_every),
            shuffle_rows,
            seed,
            part,
        ),
        held_out_batches=lambda: criteo.batches(
            files.held_out,
            batch,
            selection=criteo.Selection(files.held_out_every, is_held_out=True),
        ),
        logits=lambda features, label, embed=INPUT_LAYER: model.logits(features, options, embed),
    )


def data_files(flags: argparse.Namespace) -> DataFiles:
    """The files that the flags name, or generated ones."""
    if flags.data:
        training = criteo.find_files(flags.data)
        if flags.held_out:
            return DataFiles(training, criteo.find_files(flags.held_out), 0)
        return DataFiles(training, training, flags.held_out_every)
    held_out_rows = min(GENERATED_HELD_OUT_ROWS, max(1, flags.rows // 10))
    paths: Tuple = generated_files(flags.data_dir, flags.rows, held_out_rows, flags.seed)
    return DataFiles([str(paths[0])], [str(paths[1])], 0)
