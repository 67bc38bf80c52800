"""What a session of graph_opt costs beside TensorFlow's own, apart from what it gains.

    cpu_s_to_step_2     CPU time of a process that builds DLRM, opens a session and trains two steps
    added_cpu_s         the same, less that of TensorFlow alone in the same round
    step_ms             a step of two ids and one small layer
    caller_cpu_ms       CPU time that the thread which runs such a step spends on it
    ratio_to_stock      step_ms over that of TensorFlow alone, in each round
    longest_step_ratio  the longest step over the median one, while a stage tries out its threads

Each process of the first two is new, and its compiled Python modules are kept, as those of an
installed package are. "none" is a session of graph_opt that is asked for nothing.
"""

from __future__ import annotations

from tools.bench.overhead import first_trial, start, tiny_steps
from tools.bench.records import Outcome


def run(quick: bool = False) -> Outcome:
    """Measures all of it; `quick` only tries that it works."""
    return start.measure(quick) + tiny_steps.measure(quick) + first_trial.measure(quick)
