"""RMSProp without momentum as Keras writes it: averages of all rows decay, and some rows move.

g = gradient of each unique row, at rows i
mean <- Assign(mean, mean * rho)   then  ScatterAdd(mean, i, g * g * (1 - rho))
table <- ScatterAdd(i, -learning rate * g / (sqrt(gather(mean, i)) + epsilon))
group_deps waits for both
"""

from __future__ import annotations

from typing import Tuple

from graph_opt.graph.view import GraphView
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern, integer, op, tensor
from graph_opt.rules.optimizers.several_ops import decayed_slot, end_of_several
from graph_opt.rules.optimizers.update_form import FoundUpdate, UpdateForm, matched_slices
from graph_opt.rules.optimizers.update_inputs import flag, hyperparameter, scalar, summed

OPTIMIZER = "KerasRMSProp"
_ENDS = frozenset(["ResourceScatterAdd"])
_SCALARS = ("learning_rate", "rho", "epsilon")


def _pattern() -> Tuple[Pattern, Pattern]:
    """The addition, and the average in it."""
    gradient, rows = summed()
    mean = decayed_slot("mean_square", "rho", op("Mul", gradient, gradient), rows)
    root = op("Sqrt", op("GatherV2", mean, rows, integer(0), batch_dims=0))
    divisor = op(("Add", "AddV2"), root, scalar(tensor("epsilon")))
    step = op("Mul", op("Neg", scalar(tensor("learning_rate"))), gradient)
    return op(_ENDS, tensor("table"), rows, op("RealDiv", step, divisor)), mean


def _read(view: GraphView, writer: str, found: Match) -> FoundUpdate:
    nodes = dict(found.nodes)
    end = end_of_several(view, (writer, found.places[_MEAN].node), nodes)
    return FoundUpdate(
        optimizer=OPTIMIZER,
        slots=(found.tensors["mean_square"],),
        hyperparameters=tuple(hyperparameter(view, found.tensors[name]) for name in _SCALARS),
        attributes={"use_locking": flag(view, writer, "use_locking")},
        slices=matched_slices(found),
        end=end,
        nodes=tuple(nodes),
    )


_PATTERN, _MEAN = _pattern()
FORM = UpdateForm(_ENDS, _PATTERN, _read)
