"""Tuned threads and capacity (`threads_num: -1`, `capacity: -1`) against a sweep of fixed ones.

Four trainings whose best settings differ (`cases.py`), each in a process of its own, each with
six fixed settings and tuned, in turns. Modes are called "threads x capacity". Figures:

    steps_per_s           of each setting
    ratio_to_best_fixed   of the tuned one, in each round, to the setting with the best median
    threads, capacity     what the tuned one had in the end
"""

from __future__ import annotations

from tools.bench.process_outcome import PartFailed, nothing_of, outcome_of_process, with_figures
from tools.bench.records import Outcome
from tools.bench.tuning.cases import NAMES
from tools.bench.tuning.sweep import TUNED, label, measure

LIMIT_SECONDS = 600.0


def run(quick: bool = False) -> Outcome:
    """Measures all cases; `quick` tries one of them."""
    outcome = Outcome(())
    for name in NAMES[:1] if quick else NAMES:
        try:
            outcome += outcome_of_process(measure, [name, quick], LIMIT_SECONDS)
        except PartFailed as error:
            outcome += nothing_of((name, label(TUNED), {}), ["ratio_to_best_fixed"], error)
    return with_figures(outcome)
