"""AdamW as scripts for TensorFlow 1 write it: BERT's AdamWeightDecayOptimizer, as dense tensors.

    g = dense gradient
    m <- Assign(m' = m * beta1 + g * (1 - beta1))
    v <- Assign(v' = v * beta2 + Square(g) * (1 - beta2))
    table <- Assign(table - learning rate * (m' / (sqrt(v') + epsilon) [+ weight decay * table]))

The factors are constants, in either order of each product.
"""

from __future__ import annotations

from typing import Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.gradients.gather import Slices
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern, one_of, op, tensor
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.op_names import ADDS, ASSIGNS
from graph_opt.rules.optimizers.dense_gradient import dense_gradient
from graph_opt.rules.optimizers.several_ops import old_value, unread_after, waiting_for_all
from graph_opt.rules.optimizers.update_form import GRADIENT, FoundUpdate, UpdateForm
from graph_opt.rules.optimizers.update_inputs import flag, hyperparameter, scalar

OPTIMIZER = "AdamW"
_SCALARS = (
    "learning_rate",
    "beta1",
    "one_minus_beta1",
    "beta2",
    "one_minus_beta2",
    "epsilon",
    "weight_decay",
)


def _pattern() -> Tuple[Pattern, Pattern, Pattern]:
    """The assignment, and the new moments in it."""
    m = _moment("m", "beta1", tensor(GRADIENT))
    square = op("Square", tensor("gradient again"))
    v = _moment("v", "beta2", square)
    step = op("RealDiv", m, op(ADDS, op("Sqrt", v), scalar(tensor("epsilon"))))
    decayed = op(ADDS, step, _product("weight_decay", old_value("table")))
    moved = _product("learning_rate", one_of(decayed, step))
    return op(ASSIGNS, tensor("table"), op("Sub", old_value("table"), moved)), m, v


def _moment(name: str, beta: str, gradient: Pattern) -> Pattern:
    return op(ADDS, _product(beta, old_value(name)), _product("one_minus_" + beta, gradient))


def _product(name: str, factor: Pattern) -> Pattern:
    number = scalar(tensor(name))
    return one_of(op("Mul", number, factor), op("Mul", factor, number))


def _read(view: GraphView, writer: str, found: Match) -> FoundUpdate:
    table = found.tensors["table"]
    structure = Structure(view)
    slices = _slices(structure, table, found.tensors[GRADIENT])
    if slices != _slices(structure, table, found.tensors["gradient again"]):
        need = "one gradient for both moments"
        raise Refusal("lookup_differs", at=writer, need=need, saw="two")
    ends = [
        _assignment(view, found.tensors[name], found.places[changed])
        for name, changed in (("m", _M), ("v", _V))
    ]
    waiting_for_all(view, [writer, *ends])
    ends.extend(unread_after(view, [writer, *ends]))
    return FoundUpdate(
        optimizer=OPTIMIZER,
        slots=(found.tensors["m"], found.tensors["v"]),
        hyperparameters=tuple(
            hyperparameter(view, found.tensors[name]) if name in found.tensors else 0.0
            for name in _SCALARS
        ),
        attributes={"use_locking": flag(view, writer, "use_locking", view.op(writer) == "Assign")},
        slices=slices,
        end=writer,
        nodes=tuple([*found.nodes, *structure.seen, *ends]),
        slot_ends=tuple(ends),
    )


def _slices(structure: Structure, table: TensorRef, gradient: TensorRef) -> Tuple[Slices, ...]:
    found = dense_gradient(structure, table, gradient)
    if found.decay:
        need = "a weight decay beside the gradient"
        raise Refusal("penalty_on_whole_table", at=gradient.node, need=need, saw="one in it")
    return found.slices


def _assignment(view: GraphView, slot: TensorRef, changed: TensorRef) -> str:
    """The node that assigns a slot its new value."""
    found = [
        use.consumer
        for use in view.uses(changed)
        if view.op(use.consumer) in ASSIGNS and list(view.inputs(use.consumer)) == [slot, changed]
    ]
    if len(found) != 1:
        need = "one assignment of it to {}".format(slot.node)
        raise Refusal("lookup_differs", at=changed.node, need=need, saw=str(len(found)))
    return found[0]


_PATTERN, _M, _V = _pattern()
FORM = UpdateForm(ASSIGNS, _PATTERN, _read)
