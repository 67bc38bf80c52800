"""Finds the numbers of steps that a stage can count in the place of main.

Such a number grows by a constant in each training step, so what it will be once the updates that a
step does not see are applied is known: main is given that, and computes learning rates from it.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

from graph_opt.graph.view import GraphView
from graph_opt.passes.pipeline.training_step import TrainingStep

_ADDS = ("AssignAdd", "AssignAddVariableOp")


class Counter(NamedTuple):
    """A number of steps.

    Attributes:
      update: The node that adds to it.
      variable: The variable.
      increment: What each training step adds.
    """

    update: str
    variable: str
    increment: np.ndarray


def counters(view: GraphView, step: TrainingStep) -> Dict[str, Counter]:
    """The numbers of steps that the updates of a training step count, by update."""
    updates: Dict[str, List[str]] = {}
    for name in step.updates:
        for variable in step.written[name]:
            updates.setdefault(variable, []).append(name)
    found = {}
    for variable, names in updates.items():
        counter = _counter(view, variable, names[0]) if len(names) == 1 else None
        if counter is not None and step.counts_steps(names[0]) and step.is_in_each(names[0]):
            found[names[0]] = counter
    return found


def _counter(view: GraphView, variable: str, update: str) -> Optional[Counter]:
    if view.op(update) not in _ADDS:
        return None
    increment: Any = view.constant(view.inputs(update)[1])
    return None if increment is None else Counter(update, variable, increment)
