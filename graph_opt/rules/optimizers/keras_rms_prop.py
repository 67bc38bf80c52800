"""RMSProp without momentum as Keras writes it: averages of all rows decay, and some rows move.

g = gradient of each unique row, at rows i
square <- Assign(square, square * rho)   then  ScatterAdd(square, i, g * g * (1 - rho))
table <- ScatterAdd(i, -learning rate * g / (sqrt(variance) + epsilon))
variance = gather(square, i)
           gather(square, i) - Square(gather(mean, i))          centered
mean <- Assign(mean, mean * rho)         then  ScatterAdd(mean, i, g * (1 - rho))
group_deps waits for all
"""

from __future__ import annotations

from typing import Tuple

from graph_opt.graph.view import GraphView
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern, integer, one_of, op, tensor
from graph_opt.rules.optimizers.several_ops import decayed_slot, end_of_several
from graph_opt.rules.optimizers.update_form import FoundUpdate, UpdateForm, matched_slices
from graph_opt.rules.optimizers.update_inputs import flag, hyperparameter, scalar, summed

OPTIMIZER = "KerasRMSProp"
CENTERED = "KerasCenteredRMSProp"
_ENDS = frozenset(["ResourceScatterAdd"])
_SCALARS = ("learning_rate", "rho", "epsilon")


def _pattern() -> Tuple[Pattern, Pattern, Pattern]:
    """The addition, and the averages in it."""
    gradient, rows = summed()
    square = decayed_slot("mean_square", "rho", op("Mul", gradient, gradient), rows)
    mean = decayed_slot("mean", "rho", gradient, rows)
    of_squares = op("GatherV2", square, rows, integer(0), batch_dims=0)
    of_mean = op("Square", op("GatherV2", mean, rows, integer(0), batch_dims=0))
    root = op("Sqrt", one_of(op("Sub", of_squares, of_mean), of_squares))
    divisor = op(("Add", "AddV2"), root, scalar(tensor("epsilon")))
    step = op("Mul", op("Neg", scalar(tensor("learning_rate"))), gradient)
    return op(_ENDS, tensor("table"), rows, op("RealDiv", step, divisor)), square, mean


def _read(view: GraphView, writer: str, found: Match) -> FoundUpdate:
    nodes = dict(found.nodes)
    slots = [(found.tensors["mean_square"], found.places[_SQUARE])]
    if "mean" in found.tensors:
        slots.append((found.tensors["mean"], found.places[_MEAN]))
    end = end_of_several(view, [writer, *(changed.node for _, changed in slots)], nodes)
    return FoundUpdate(
        optimizer=CENTERED if "mean" in found.tensors else OPTIMIZER,
        slots=tuple(slot for slot, _ in slots),
        hyperparameters=tuple(hyperparameter(view, found.tensors[name]) for name in _SCALARS),
        attributes={"use_locking": flag(view, writer, "use_locking")},
        slices=matched_slices(found),
        end=end,
        nodes=tuple(nodes),
    )


_PATTERN, _SQUARE, _MEAN = _pattern()
FORM = UpdateForm(_ENDS, _PATTERN, _read)
