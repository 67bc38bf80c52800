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

from typing import Dict, Iterator, NoReturn, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import ANY, Condition, Pattern, constant, one_of, op, tensor
from graph_opt.rules.match.table import find_read
from graph_opt.rules.optimizers.update_inputs import (
    FoundUpdate,
    flag,
    hyperparameter,
    matched,
    scalar,
    summed,
)

OPTIMIZER = "Adam"
ENDS = frozenset(["AssignSub", "AssignSubVariableOp"])
_ADDS = ("Add", "AddV2")
_ASSIGNS = ("Assign", "AssignVariableOp")
_SCATTERS = ("ScatterAdd", "ResourceScatterAdd")
_WRITES = ENDS.union(_ASSIGNS, _SCATTERS)
_SCALARS = ("learning_rate", "beta1", "beta2", "epsilon", "beta1_power", "beta2_power")


def read(view: GraphView, writer: str) -> FoundUpdate:
    """The update that ends in the subtraction `writer`.

    Raises:
      Refusal: lookup_differs.
    """
    values, indices = summed()
    m = _moment("m", "beta1", values, indices)
    v = _moment("v", "beta2", op("Mul", values, values), indices)
    root = op(_ADDS, op("Sqrt", v), scalar(tensor("epsilon")))
    step = op("RealDiv", op("Mul", _rate(), m), root)
    found = matched(view, writer, op(ENDS, tensor("table"), step))
    nodes = dict(found.nodes)
    end = _end(view, writer, (found.places[m].node, found.places[v].node), nodes)
    return FoundUpdate(
        optimizer=OPTIMIZER,
        slots=(found.tensors["m"], found.tensors["v"]),
        hyperparameters=tuple(hyperparameter(view, found.tensors[name]) for name in _SCALARS),
        attributes={"use_locking": flag(view, writer, "use_locking")},
        values=found.tensors["values"],
        indices=found.tensors["indices"],
        end=end,
        nodes=tuple(nodes),
    )


def _rate() -> Pattern:
    """The learning rate, corrected for moments that start at 0."""
    learning_rate = scalar(tensor("learning_rate"))
    root = op("Sqrt", _rest_of_one(scalar(tensor("beta2_power"))))
    rest = _rest_of_one(scalar(tensor("beta1_power")))
    return one_of(
        op("RealDiv", op("Mul", learning_rate, root), rest),
        op("Mul", learning_rate, op("RealDiv", root, rest)),
    )


def _rest_of_one(taken: Pattern) -> Pattern:
    return op("Sub", constant(1), taken)


def _moment(name: str, beta: str, gradient: Pattern, indices: Pattern) -> Pattern:
    """A moment after the step: all rows decayed, then the gradient's part added to its rows."""
    variable = tensor(name)
    rest = _rest_of_one(tensor(beta + " of the rest"))
    decay = scalar(tensor(beta)).where(_is_same(beta), "the beta of the gradient's part")
    old = ANY.where(_is_old(name), "the moment as it was before the step")
    assigned = op(_ASSIGNS, variable, op("Mul", old, decay))
    scattered = op(_SCATTERS, variable, indices, op("Mul", gradient, rest)).after(assigned)
    return one_of(op("ReadVariableOp", variable).after(scattered), scattered)


def _is_same(beta: str) -> Condition:
    def holds(match: Match, decay: TensorRef) -> bool:
        rest = match.tensors[beta + " of the rest"]
        return hyperparameter(match.view, decay) == hyperparameter(match.view, rest)

    return holds


def _is_old(name: str) -> Condition:
    def holds(match: Match, old: TensorRef) -> bool:
        view, variable = match.view, match.tensors[name]
        found = find_read(view, old)
        if found is None or found.variable != variable.node or found.control_flow is not None:
            return False
        if view.op(old.node) == "ReadVariableOp":  # all readers of a reference share one read
            match.note(match.nodes, old.node, None)
        writers = {n for n in view.controls(old.node) if view.op(n) in _WRITES}
        return not writers.intersection(match.nodes)

    return holds


def _end(view: GraphView, writer: str, moments: Tuple[str, str], nodes: Dict[str, None]) -> str:
    """The NoOp that waits for the whole update, if nothing else uses what the update writes.

    It may wait for more: whatever the train op was told to wait for.
    """
    ends = [
        name
        for name in view.control_uses(writer)
        if view.op(name) == "NoOp" and set(moments) <= set(view.controls(name))
    ]
    if len(ends) != 1:
        _refuse(writer, "one NoOp that waits for the update", str(len(ends)))
    nodes[ends[0]] = None
    nodes.update(dict.fromkeys(_unread(view, nodes)))
    for name in nodes:
        users = view.successors(name) if view.op(name) in _WRITES else []
        outside = [user for user in users if user not in nodes]
        if outside:
            saw = "{} uses {}".format(outside[0], name)
            _refuse(writer, "an update that nothing else uses a part of", saw)
    return ends[0]


def _unread(view: GraphView, nodes: Dict[str, None]) -> Iterator[str]:
    """Reads that `assign` adds after a resource variable's change and that nothing uses."""
    for name in list(nodes):
        for waiting in view.control_uses(name):
            if view.op(waiting) == "ReadVariableOp" and not view.successors(waiting):
                yield waiting


def _refuse(at: str, need: str, saw: str) -> NoReturn:
    raise Refusal("lookup_differs", at=at, need=need, saw=saw)
