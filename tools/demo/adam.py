"""The demo's first figures: DLRM with Adam, by TensorFlow alone and by graph_opt.

Both train the same steps on the same rows from the same initial values, in turns. Their weights are
compared one by one after the first steps, when they differ by rounding alone, and at the end, when
the last bit of a sum has decided now and then on which side of 0 a ReLU is.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.cluster.loopback import Cluster
from tools.bench.training.contenders import Contender, Setting, Turns, open_trainer
from tools.bench.training.sessions import DEFERRED, STOCK
from tools.bench.turns import Schedule, ratios
from tools.bench.workloads.scoring import Score, evaluate
from tools.bench.workloads.workload import TrainingGraph, training_graph

NAMES = {STOCK: "TensorFlow alone", DEFERRED: "graph_opt"}
RunInTurns = Callable[[str, Sequence[Contender], Schedule], Turns]
_COLUMNS = "  {:<18}{:>26}{:>10}{:>10}"
_WEIGHTS = "weights_to_compare"


class AdamPart(NamedTuple):
    """What training with Adam came to.

    Attributes:
      first_steps: after which the weights were first compared; they are not timed.
      steps: of the whole training.
      weights: how many there are.
      turns: timed steps of both modes.
      scores: of both modes, at the end.
      difference: the largest of any weight after the first steps.
      last_difference: the same at the end.
      report: what graph_opt found and did.
    """

    first_steps: int
    steps: int
    weights: int
    turns: Turns
    scores: Dict[str, Score]
    difference: float
    last_difference: float
    report: Any


def train_with_adam(setting: Setting, schedule: Schedule, run_in_turns: RunInTurns) -> AdamPart:
    """Trains in both modes alternately, in this process, and compares what they learned.

    Args:
      setting: model, optimizer and data.
      schedule: how often and how long each has its turn; its warm-up are the first steps.
      run_in_turns: does so, told a title.
    """
    import graph_opt

    cluster = Cluster()
    with contextlib.ExitStack() as stack:
        folders = {mode: stack.enter_context(tempfile.TemporaryDirectory()) for mode in NAMES}
        graphs = {}
        with contextlib.ExitStack() as sessions:
            contenders: List[Contender] = []
            for mode, folder in folders.items():
                graphs[mode] = training_graph(setting.workload, setting.learning, cluster)
                _prepare(graphs[mode])
                trainer = open_trainer(setting, mode, graphs[mode], cluster, directory=folder)
                contenders.append(sessions.enter_context(trainer))
            title = "Adam, one process"
            run_in_turns(title, contenders, schedule._replace(rounds=0))
            difference = _largest_difference(contenders)
            turns = run_in_turns(title, contenders, schedule._replace(warm_up=0))
            last_difference = _largest_difference(contenders)
        scores = {mode: evaluate(setting.workload, folder) for mode, folder in folders.items()}
    return AdamPart(
        schedule.warm_up,
        schedule.warm_up + schedule.rounds * (schedule.settle + schedule.steps),
        sum(tensor.shape.num_elements() for tensor in _weights(graphs[STOCK].graph)),
        turns,
        scores,
        difference,
        last_difference,
        graph_opt.report(graphs[DEFERRED].graph),
    )


def adam_figures(part: AdamPart) -> Dict[str, Any]:
    """The same as `adam_report`, for programs: speeds in steps a second."""
    return {
        "ratio": _quotient(part),
        "stock": _rates(part, STOCK)[1],
        "graph_opt": _rates(part, DEFERRED)[1],
        "steps": part.steps,
        "auc": {NAMES[mode]: part.scores[mode].auc for mode in NAMES},
        "difference": part.difference,
        "first_steps": part.first_steps,
    }


def adam_report(part: AdamPart, title: str) -> str:
    """What to tell a new user."""
    quotient = _quotient(part)
    header = ("", "steps a second", "AUC", "log loss")
    differences = ((part.difference, part.first_steps), (part.last_difference, part.steps))
    after = ", ".join(f"{value:.1g} after {steps} steps" for value, steps in differences)
    lines = [
        "",
        f"{title}: {quotient:.1f} times as fast",
        "",
        _COLUMNS.format(*header),
        *(_row(part, mode) for mode in NAMES),
        "",
        f"  largest difference of a weight: {after}",
        "",
        "  TensorFlow's Adam moves all rows of its tables in each step; graph_opt moves a",
        "  row when it is next read, to the same place. All "
        f"{part.weights / 1e6:.1f} million weights were",
        "  compared: sums round differently, and where that puts a ReLU on the other side",
        "  of 0, runs part.",
        *(f"  {line}" for line in str(part.report).splitlines()),
        "",
    ]
    return "\n".join(lines)


def _row(part: AdamPart, mode: str) -> str:
    slowest, median, fastest = _rates(part, mode)
    rate = f"{median:.1f}  ({slowest:.1f} to {fastest:.1f})"
    score = part.scores[mode]
    return _COLUMNS.format(NAMES[mode], rate, f"{score.auc:.4f}", f"{score.log_loss:.4f}")


def _quotient(part: AdamPart) -> float:
    return statistics.median(ratios(*(_seconds(part, mode) for mode in NAMES)))


def _rates(part: AdamPart, mode: str) -> Tuple[float, float, float]:
    """Steps a second: the slowest turn, the median and the fastest."""
    rates = sorted(1.0 / seconds for seconds in _seconds(part, mode))
    return rates[0], statistics.median(rates), rates[-1]


def _seconds(part: AdamPart, mode: str) -> List[float]:
    return [turn.seconds_per_step for turn in part.turns[mode]]


def _prepare(training: TrainingGraph) -> None:
    """Tensors of all weights, and a saver that leaves the moments out to spare the disk."""
    with training.graph.as_default():
        weights = tf.trainable_variables()
        for variable in weights:
            tf.add_to_collection(_WEIGHTS, tf.identity(variable))
        saver = tf.train.Saver([*weights, training.global_step])
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)


def _weights(graph: tf.Graph) -> List[tf.Tensor]:
    return list(graph.get_collection(_WEIGHTS))


def _largest_difference(contenders: Sequence[Contender]) -> float:
    """Of any weight of the two contenders."""
    sessions = [contender.session for contender in contenders]
    values = [session.run(_weights(session.graph)) for session in sessions]
    return max(float(np.abs(one - other).max()) for one, other in zip(*values))
