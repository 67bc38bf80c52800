"""What rows that miss updates cost in accuracy, and how many updates they miss.

A model is trained for an epoch, by TensorFlow alone, with fused lookups that run ahead by so many
batches, and with exact rows; with three seeds of initial values and order of rows, so that what a
way changes can be told from what a seed changes. The figures are those of figures.py, for ratings
of MovieLens 100K (absent where its files are) and for generated rows in Criteo's format. No speed
is measured, so that other jobs may use the machine.
"""

from __future__ import annotations

import sys

from tools.bench.accuracy.cases import CASES
from tools.bench.accuracy.figures import absent_outcome
from tools.bench.accuracy.training import measure
from tools.bench.process_outcome import PartFailed, outcome_of_process, with_figures
from tools.bench.records import Outcome

LIMIT_SECONDS = 1200.0


def run(quick: bool = False) -> Outcome:
    """Trains on each data set in a process of its own; `quick` takes few ways and one seed."""
    outcome = Outcome(())
    for case in CASES:
        print(case, file=sys.stderr, flush=True)
        try:
            outcome += outcome_of_process(measure, [case, quick], LIMIT_SECONDS)
        except PartFailed as error:
            outcome += absent_outcome(case, error)
    return with_figures(outcome)
