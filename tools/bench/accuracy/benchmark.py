"""What rows that miss updates cost in accuracy, and how many updates they miss.

A model is trained for an epoch, by TensorFlow alone, with fused lookups that run ahead by so many
batches, and with exact rows; with three seeds of initial values and order of rows, so that what a
way changes can be told from what a seed changes. The figures are those of figures.py, for ratings
of MovieLens 100K (absent where its files are) and for generated rows in Criteo's format. No speed
is measured, so that other jobs may use the machine.
"""

from __future__ import annotations

import functools
import sys
from concurrent.futures import ThreadPoolExecutor

from tools.bench.accuracy.cases import CASES
from tools.bench.accuracy.figures import absent_outcome
from tools.bench.accuracy.training import measure
from tools.bench.process_outcome import PartFailed, outcome_of_process, with_figures
from tools.bench.records import Outcome

LIMIT_SECONDS = 1200.0


def run(quick: bool = False) -> Outcome:
    """Trains on all data sets at once, each in a process; `quick` takes few ways and one seed."""
    with ThreadPoolExecutor(len(CASES)) as threads:
        outcomes = threads.map(functools.partial(_trained, quick=quick), CASES)
    return with_figures(sum(outcomes, Outcome(())))


def _trained(case: str, quick: bool) -> Outcome:
    print(case, file=sys.stderr, flush=True)
    try:
        return outcome_of_process(measure, [case, quick], LIMIT_SECONDS)
    except PartFailed as error:
        return absent_outcome(case, error)
