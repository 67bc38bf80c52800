"""Adam on sparse gradients, as TensorFlow 1 and Keras write it over whole variables.

    g = gradient of each row once, at rows i
    m <- Assign(m, m * beta1)          then  ScatterAdd(m, i, g * (1 - beta1))
    v <- Assign(v, v * beta2)          then  ScatterAdd(v, i, g * g * (1 - beta2))
    table <- AssignSub(rate * m / (sqrt(v) + epsilon))
    rate = (learning rate * sqrt(1 - beta2 power)) / (1 - beta1 power)       TensorFlow 1
           learning rate * (sqrt(1 - beta2 power) / (1 - beta1 power))       Keras
    group_deps waits for all three

Of a reference, ScatterAdd gives the new value; of a resource variable, a ReadVariableOp that waits
for it does. All rows of m, v and the table change each step. The update by rows alone, which may
take its place on request, is another rule: its numbers differ from the second step on.
"""

from __future__ import annotations

from typing import Dict, Iterator, NamedTuple, Tuple

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.gradients.gather import Slices
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.match.table import find_read
from graph_opt.rules.update_inputs import Number, is_scalar, number, parts_of, summed_by_row

ADAM_ENDS = frozenset(["AssignSub", "AssignSubVariableOp"])
_ADDS = ("Add", "AddV2")
_WRITES = ADAM_ENDS | {"ScatterAdd", "ResourceScatterAdd", "Assign", "AssignVariableOp"}


class AdamUpdate(NamedTuple):
    """Adam's update of one variable.

    Attributes:
      slots: m and v.
      hyperparameters: Learning rate, beta1, beta2, epsilon, beta1 power, beta2 power.
      parts: The IndexedSlices whose sum is g.
      use_locking: Of all the assignments.
      end: The NoOp that waits for table, m and v.
      nodes: All nodes of the update.
    """

    slots: Tuple[TensorRef, TensorRef]
    hyperparameters: Tuple[Number, ...]
    parts: Tuple[Slices, ...]
    use_locking: bool
    end: str
    nodes: Tuple[str, ...]


class _Moment(NamedTuple):
    variable: TensorRef
    decay: Number
    gradient: TensorRef  # m: g; v: g * g
    indices: TensorRef


class _Rate(NamedTuple):
    learning_rate: TensorRef
    beta1_power: TensorRef
    beta2_power: TensorRef


def read_adam(structure: Structure, writer: str) -> AdamUpdate:
    """The update that ends in the subtraction `writer`.

    Raises:
      Refusal: lookup_differs.
    """
    view = structure.view
    structure.seen[writer] = None
    step, root = structure.inputs(view.inputs(writer)[1], "RealDiv")
    product, new_m = structure.inputs(step, "Mul")
    square_root, epsilon = structure.inputs(root, *_ADDS)
    new_v = structure.inputs(square_root, "Sqrt")[0]
    rate = _rate(structure, product)
    m, v = _moment(structure, new_m), _moment(structure, new_v)
    gradient, again = structure.inputs(v.gradient, "Mul")
    for found in (gradient, again):
        structure.require_same(found, m.gradient, v.gradient.node)
    structure.require_same(v.indices, m.indices, new_v.node)
    values, indices = summed_by_row(structure, m.gradient, m.indices)
    parts = parts_of(structure, values, indices)
    scalars = (rate.learning_rate, epsilon, rate.beta1_power, rate.beta2_power)
    for scalar in scalars:
        structure.require(is_scalar(view, scalar), scalar, "a scalar", str(view.shape(scalar)))
    learning_rate, epsilon_value, beta1_power, beta2_power = (number(view, s) for s in scalars)
    end = _end(structure, writer, (new_m.node, new_v.node))
    locking = view.attribute(writer, "use_locking")
    return AdamUpdate(
        slots=(m.variable, v.variable),
        hyperparameters=(
            learning_rate, m.decay, v.decay, epsilon_value, beta1_power, beta2_power
        ),
        parts=parts,
        use_locking=locking is not None and bool(locking.b),
        end=end,
        nodes=tuple(structure.seen),
    )  # fmt: skip


def _rate(structure: Structure, product: TensorRef) -> _Rate:
    if structure.is_made_by(product, "RealDiv"):
        scaled, beta1 = structure.inputs(product, "RealDiv")
        learning_rate, root = structure.inputs(scaled, "Mul")
    else:
        learning_rate, quotient = structure.inputs(product, "Mul")
        root, beta1 = structure.inputs(quotient, "RealDiv")
    beta2 = structure.inputs(root, "Sqrt")[0]
    return _Rate(learning_rate, _rest_of_one(structure, beta1), _rest_of_one(structure, beta2))


def _rest_of_one(structure: Structure, rest: TensorRef) -> TensorRef:
    """What a difference takes from one."""
    one, tensor = structure.inputs(rest, "Sub")
    structure.require_constant(one, 1)
    return tensor


def _moment(structure: Structure, new: TensorRef) -> _Moment:
    view = structure.view
    scatter, assign = _moment_writers(structure, new)
    variable, indices, added = view.inputs(scatter)
    structure.require_same(view.inputs(assign)[0], variable, assign)
    gradient, rest = structure.inputs(added, "Mul")
    old, decay = structure.inputs(view.inputs(assign)[1], "Mul")
    read = find_read(view, old)
    is_old = read is not None and read.variable == variable.node and read.control_flow is None
    waits = {scatter, assign}.intersection(view.controls(old.node))
    structure.require(is_old and not waits, old, "the moment as it was before the step")
    if view.op(old.node) == "ReadVariableOp":  # a reference has one read for all
        structure.seen[old.node] = None
    structure.require(is_scalar(view, decay), decay, "a scalar", str(view.shape(decay)))
    beta = number(view, decay)
    _require_rest(structure, rest, beta)
    return _Moment(variable, beta, gradient, indices)


def _moment_writers(structure: Structure, new: TensorRef) -> Tuple[str, str]:
    """(scatter, assign) that made a new moment."""
    view = structure.view
    if structure.is_made_by(new, "ScatterAdd"):
        structure.seen[new.node] = None
        scatter, assign_op = new.node, "Assign"
    else:
        variable = structure.inputs(new, "ReadVariableOp")[0]
        found = [name for name in view.controls(new.node) if view.op(name) == "ResourceScatterAdd"]
        structure.require(len(found) == 1, new, "a read that waits for one ResourceScatterAdd")
        structure.require_same(view.inputs(found[0])[0], variable, new.node)
        structure.seen[found[0]] = None
        scatter, assign_op = found[0], "AssignVariableOp"
    assigns = [name for name in view.controls(scatter) if view.op(name) == assign_op]
    at = TensorRef(scatter, 0)
    structure.require(len(assigns) == 1, at, "a wait for one " + assign_op)
    structure.seen[assigns[0]] = None
    return scatter, assigns[0]


def _require_rest(structure: Structure, rest: TensorRef, beta: Number) -> None:
    """Refuses unless this is 1 - beta."""
    found = number(structure.view, _rest_of_one(structure, rest))
    structure.require(found == beta, rest, "1 - {}".format(beta), "1 - {}".format(found))


def _end(structure: Structure, writer: str, moments: Tuple[str, str]) -> str:
    """The NoOp that waits for all of the update, once nothing else is found to use what it writes.

    It may wait for more: for what the train op was told to wait for.
    """
    view = structure.view
    ends = [
        name
        for name in view.control_uses(writer)
        if view.op(name) == "NoOp" and set(moments) <= set(view.controls(name))
    ]
    at = TensorRef(writer, 0)
    structure.require(len(ends) == 1, at, "one NoOp that waits for the update", str(len(ends)))
    structure.seen[ends[0]] = None
    structure.seen.update(dict.fromkeys(_unread(view, structure.seen)))
    for name in structure.seen:
        users = view.successors(name) if view.op(name) in _WRITES else []
        outside = [user for user in users if user not in structure.seen]
        saw = "{} uses {}".format(outside[0], name) if outside else ""
        structure.require(not outside, at, "an update that nothing else uses a part of", saw)
    return ends[0]


def _unread(view: GraphView, nodes: Dict[str, None]) -> Iterator[str]:
    """Reads that `assign` adds behind a resource variable's change, and that nobody uses."""
    for name in list(nodes):
        for waiting in view.control_uses(name):
            if view.op(waiting) == "ReadVariableOp" and not view.successors(waiting):
                yield waiting
