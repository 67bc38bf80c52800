"""AMSGrad on sparse gradients, as Keras' Adam(amsgrad=True) writes it, over whole variables.

    m, v as in adam
    greatest <- Assign(greatest, greatest' = Maximum(greatest, v))
    table <- AssignSub(rate * m / (sqrt(greatest') + epsilon))
    group_deps waits for all four

For a dense gradient there is one op, ResourceApplyAdamWithAmsgrad.
"""

from __future__ import annotations

from typing import Tuple

from graph_opt.graph.view import GraphView
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern, one_of, op, tensor
from graph_opt.rules.op_names import ADDS, ASSIGNS
from graph_opt.rules.optimizers.adam import corrected_rate
from graph_opt.rules.optimizers.several_ops import decayed_slot, end_of_several, old_value
from graph_opt.rules.optimizers.update_form import FoundUpdate, UpdateForm, matched_slices
from graph_opt.rules.optimizers.update_inputs import flag, hyperparameter, scalar, summed

OPTIMIZER = "AMSGrad"
_ENDS = frozenset(["AssignSub", "AssignSubVariableOp"])
_SLOTS = ("m", "v", "greatest_v")
_SCALARS = ("learning_rate", "beta1", "beta2", "epsilon", "beta1_power", "beta2_power")


def _pattern() -> Tuple[Pattern, Pattern, Pattern, Pattern]:
    """The subtraction, both moments in it, and the assignment of the greatest."""
    values, indices = summed()
    m = decayed_slot("m", "beta1", values, indices)
    v = decayed_slot("v", "beta2", op("Mul", values, values), indices)
    assigned = op(ASSIGNS, tensor("greatest_v"), op("Maximum", old_value("greatest_v"), v))
    greatest = one_of(op("ReadVariableOp", tensor("greatest_v")).after(assigned), assigned)
    root = op(ADDS, op("Sqrt", greatest), scalar(tensor("epsilon")))
    step = op("RealDiv", op("Mul", corrected_rate(), m), root)
    return op(_ENDS, tensor("table"), step), m, v, assigned


def _read(view: GraphView, writer: str, found: Match) -> FoundUpdate:
    nodes = dict(found.nodes)
    lasts = (writer, *(found.places[last].node for last in (_M, _V, _GREATEST)))
    end = end_of_several(view, lasts, nodes)
    return FoundUpdate(
        optimizer=OPTIMIZER,
        slots=tuple(found.tensors[slot] for slot in _SLOTS),
        hyperparameters=tuple(hyperparameter(view, found.tensors[name]) for name in _SCALARS),
        attributes={"use_locking": flag(view, writer, "use_locking")},
        slices=matched_slices(found),
        end=end,
        nodes=tuple(nodes),
    )


_PATTERN, _M, _V, _GREATEST = _pattern()
FORM = UpdateForm(_ENDS, _PATTERN, _read)
