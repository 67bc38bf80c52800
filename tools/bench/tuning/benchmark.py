"""Tuned threads and capacity (`threads_num: -1`, `capacity: -1`) against a sweep of fixed ones.

Four trainings whose best settings differ (`cases.py`), each in a process of its own, each with
six fixed settings and tuned, in turns. Modes are called "threads x capacity". Figures:

    steps_per_s           of each setting
    ratio_to_best_fixed   of the tuned one, in each round, to the setting with the best median
    threads, capacity     what the tuned one had in the end
"""

from __future__ import annotations

import subprocess

from tools.bench.process_outcome import outcome_of_process
from tools.bench.records import Absent, Outcome
from tools.bench.tuning.cases import NAMES
from tools.bench.tuning.sweep import TUNED, label

LIMIT_SECONDS = 600.0


def run(quick: bool = False) -> Outcome:
    """Measures all cases; `quick` tries one of them."""
    outcome = Outcome(())
    for name in NAMES[:1] if quick else NAMES:
        flags = ["--case", name] + (["--quick"] if quick else [])
        try:
            outcome += outcome_of_process("tools.bench.tuning.sweep", flags, LIMIT_SECONDS)
        except subprocess.SubprocessError as error:
            reason = str(error)
            absent = Absent("ratio_to_best_fixed", name, label(TUNED), {}, reason)
            outcome += Outcome((), (absent,))
    if not outcome.records:
        raise RuntimeError("no case came to figures: {}".format(outcome.absent[0].reason))
    return outcome
