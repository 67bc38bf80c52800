"""Trains a workload, stock or with lookups that are fused, run ahead, or both, and scores it.

Example:
  $ python -m tools.bench.training --workload wide --mode both --ps --delay-ms 1
"""

from __future__ import annotations

import sys
from typing import Optional, Sequence

from tools.bench.training.command import run_job
from tools.bench.training.flags import add_training_flags, job_from_flags, workload_parser

STEPS = 200


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Trains as the command line says; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser, workload = workload_parser(arguments, "Train a workload and score it.")
    add_training_flags(parser, steps=STEPS)
    flags = parser.parse_args(arguments)
    return run_job(lambda: job_from_flags(workload.workload_from_flags(flags), flags))


if __name__ == "__main__":
    sys.exit(main())
