"""Adam on sparse gradients, as TensorFlow 1 and Keras write it, over whole variables.

    g = gradient of each unique row, at rows i
    m <- Assign(m, m * beta1)          then  ScatterAdd(m, i, g * (1 - beta1))
    v <- Assign(v, v * beta2)          then  ScatterAdd(v, i, g * g * (1 - beta2))
    table <- AssignSub(rate * m / (sqrt(v) + epsilon))
    rate = (learning rate * sqrt(1 - beta2 power)) / (1 - beta1 power)       TensorFlow 1
           learning rate * (sqrt(1 - beta2 power) / (1 - beta1 power))       Keras
    group_deps waits for all three

For a reference, ScatterAdd returns the new value; for a resource variable, a ReadVariableOp that
waits for it does. All rows of m, v and the table change in each step. The row-wise update, which
may replace it on request, gives other values from the second step on.
"""

from __future__ import annotations

from typing import Tuple

from graph_opt.graph.view import GraphView
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern, one_of, op, tensor
from graph_opt.rules.op_names import ADDS
from graph_opt.rules.optimizers.several_ops import decayed_slot, end_of_several
from graph_opt.rules.optimizers.update_form import FoundUpdate, UpdateForm, matched_slices
from graph_opt.rules.optimizers.update_inputs import (
    flag,
    hyperparameter,
    rest_of_one,
    scalar,
    summed,
)

OPTIMIZER = "Adam"
_ENDS = frozenset(["AssignSub", "AssignSubVariableOp"])
_SCALARS = ("learning_rate", "beta1", "beta2", "epsilon", "beta1_power", "beta2_power")


def _pattern() -> Tuple[Pattern, Pattern, Pattern]:
    """The subtraction, and both moments in it."""
    values, indices = summed()
    m = decayed_slot("m", "beta1", values, indices)
    v = decayed_slot("v", "beta2", op("Mul", values, values), indices)
    root = op(ADDS, op("Sqrt", v), scalar(tensor("epsilon")))
    step = op("RealDiv", op("Mul", corrected_rate(), m), root)
    return op(_ENDS, tensor("table"), step), m, v


def _read(view: GraphView, writer: str, found: Match) -> FoundUpdate:
    nodes = dict(found.nodes)
    end = end_of_several(view, (writer, found.places[_M].node, found.places[_V].node), nodes)
    return FoundUpdate(
        optimizer=OPTIMIZER,
        slots=(found.tensors["m"], found.tensors["v"]),
        hyperparameters=tuple(hyperparameter(view, found.tensors[name]) for name in _SCALARS),
        attributes={"use_locking": flag(view, writer, "use_locking")},
        slices=matched_slices(found),
        end=end,
        nodes=tuple(nodes),
    )


def corrected_rate() -> Pattern:
    """The learning rate, corrected for moments that start at 0."""
    learning_rate = scalar(tensor("learning_rate"))
    root = op("Sqrt", rest_of_one(scalar(tensor("beta2_power"))))
    rest = rest_of_one(scalar(tensor("beta1_power")))
    return one_of(
        op("RealDiv", op("Mul", learning_rate, root), rest),
        op("Mul", learning_rate, op("RealDiv", root, rest)),
    )


_PATTERN, _M, _V = _pattern()
FORM = UpdateForm(_ENDS, _PATTERN, _read)
