"""Adamax as Keras writes it, over the rows with a gradient alone.

g = gradient of each unique row, at rows i
m' = gather(m, i) * beta1 + g * (1 - beta1)         ScatterUpdate(m, i, m')
u' = Maximum(gather(u, i) * beta2, Abs(g))          ScatterUpdate(u, i, u')
table <- ScatterAdd(i, (-learning rate / (1 - beta1 power)) * (m' / (u' + epsilon)))
group_deps waits for all three
"""

from __future__ import annotations

from typing import Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern, op, optional, tensor
from graph_opt.rules.op_names import ADDS
from graph_opt.rules.optimizers.several_ops import end_of_several
from graph_opt.rules.optimizers.update_form import FoundUpdate, UpdateForm, matched_slices
from graph_opt.rules.optimizers.update_inputs import (
    equals,
    flag,
    hyperparameter,
    rest_of_one,
    scalar,
    summed,
)

OPTIMIZER = "Adamax"
_ENDS = frozenset(["ResourceScatterAdd"])
_SLOTS = ("m", "u")
_SCALARS = ("learning_rate", "beta1", "beta2", "epsilon", "beta1_power")


def _pattern() -> Tuple[Pattern, Pattern, Pattern, Pattern]:
    """The addition, the rows, and the new values of m and u in these rows."""
    gradient, rows = summed()
    rest = rest_of_one(tensor("beta1 of the rest").where(equals("beta1"), "the beta of m"))
    m = op(ADDS, op("Mul", _row("m", rows), scalar(tensor("beta1"))), op("Mul", gradient, rest))
    u = op("Maximum", op("Mul", _row("u", rows), scalar(tensor("beta2"))), op("Abs", gradient))
    step = op("RealDiv", m, op(ADDS, u, scalar(tensor("epsilon"))))
    power = rest_of_one(scalar(tensor("beta1_power")))
    rate = op("RealDiv", op("Neg", scalar(tensor("learning_rate"))), power)
    return op(_ENDS, tensor("table"), rows, op("Mul", rate, step)), rows, m, u


def _row(slot: str, rows: Pattern) -> Pattern:
    return optional("Identity", op("ResourceGather", tensor(slot), rows, batch_dims=0))


def _read(view: GraphView, writer: str, found: Match) -> FoundUpdate:
    nodes = dict(found.nodes)
    lasts = [writer]
    for slot, changed in zip(_SLOTS, (_M, _U)):
        lasts.append(_write(view, found.tensors[slot], found.places[_ROWS], found.places[changed]))
    nodes.update(dict.fromkeys(lasts))
    return FoundUpdate(
        optimizer=OPTIMIZER,
        slots=tuple(found.tensors[slot] for slot in _SLOTS),
        hyperparameters=tuple(hyperparameter(view, found.tensors[name]) for name in _SCALARS),
        attributes={"use_locking": flag(view, writer, "use_locking")},
        slices=matched_slices(found),
        end=end_of_several(view, lasts, nodes),
        nodes=tuple(nodes),
    )


def _write(view: GraphView, slot: TensorRef, rows: TensorRef, changed: TensorRef) -> str:
    """The node that writes these values to these rows of a slot."""
    writes = [
        use.consumer
        for use in view.uses(changed)
        if view.op(use.consumer) == "ResourceScatterUpdate"
        and list(view.inputs(use.consumer)) == [slot, rows, changed]
    ]
    if len(writes) != 1:
        need = "one ResourceScatterUpdate of {} by it".format(slot.node)
        raise Refusal("lookup_differs", at=changed.node, need=need, saw=str(len(writes)))
    return writes[0]


_PATTERN, _ROWS, _M, _U = _pattern()
FORM = UpdateForm(_ENDS, _PATTERN, _read)
