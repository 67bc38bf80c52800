"""`graph-opt update`: writes an update of an export's tables."""

from __future__ import annotations

import argparse

from graph_opt.cli.progress import Progress
from graph_opt.serving.table_updates import update_served

_COMPARING = "comparing tables"


def handle(options: argparse.Namespace) -> int:
    """Writes it and says what was done; returns the exit code.

    Raises:
      tf.errors.FailedPreconditionError: Nothing differs from the export.
      tf.errors.OpError: A path is wrong, or a file is damaged.
    """
    with Progress(options.input, {_COMPARING: 1.0}) as progress:
        update = update_served(
            options.input, options.checkpoints, options.output, progress.reached
        )
    print(update)
    return 0
