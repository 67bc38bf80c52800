"""Trains DLRM, stock or with lookups that are fused, run ahead, or both.

Example:
  $ python -m examples.dlrm.train --mode both --data day_0.tsv day_1.tsv --checkpoint-dir run
"""

from __future__ import annotations

import argparse
import sys
from typing import Optional, Sequence

from examples.command import run_job
from examples.dlrm.workload import add_flags, workload_from_flags
from examples.flags import add_training_flags, job_from_flags

STEPS = 1000


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Trains as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description="Train DLRM on Criteo's click logs.")
    add_flags(parser)
    add_training_flags(parser, steps=STEPS)
    flags = parser.parse_args(arguments)
    return run_job(lambda: job_from_flags(workload_from_flags(flags), flags))


if __name__ == "__main__":
    sys.exit(main())
