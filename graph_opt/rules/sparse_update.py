"""How optimizers update a table by sparse gradients.

    values, indices of one lookup, or ConcatV2 of several lookups'
        -> [UnsortedSegmentSum(values, Unique(indices):1), Unique(indices):0]       each row once
        -> SparseApplyAdagrad | SparseApplyMomentum | SparseApplyFtrl  [V2]  [Resource]
    or  -> ScatterSub(table, indices, values * rate)                    gradient descent, ref
        -> ResourceScatterAdd(table, indices, -values * rate)           .. resource
    or  -> the many ops of Adam                                         adam_update

What stands between the lookups' gradients and this (clipping, scaling, communication) is not
looked at: then the parts are what it made, and no lookup's.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.rules.adam_update import ADAM_ENDS, read_adam
from graph_opt.rules.gradients.gather import Slices
from graph_opt.rules.lookup import Table
from graph_opt.rules.match.forward import ForwardPart
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.match.table import describe, find_read
from graph_opt.rules.table_writers import table_writer
from graph_opt.rules.update_inputs import Number, is_scalar, number, parts_of, summed_by_row

GRADIENT_DESCENT = "GradientDescent"
MOMENTUM = "Momentum"
ADAGRAD = "Adagrad"
FTRL = "Ftrl"
ADAM = "Adam"


@dataclasses.dataclass(frozen=True)
class SparseUpdate:
    """The update of one variable by sparse gradients.

    Attributes:
      optimizer: `GradientDescent`, `Momentum`, `Adagrad`, `Ftrl` or `Adam`.
      table: Name of the variable.
      slots: References or handles, in the order of the optimizer's own op; Adam: m, v.
      hyperparameters: In the order of GroupEmbeddingApply
        (`ops_src/kernels/apply/group_apply_ops.cc`); constants as numbers.
      parts: The IndexedSlices whose sum is applied, in order.
      attributes: Of that op: `use_nesterov`, `update_slots`, `multiply_linear_by_lr` and
        `use_locking`, those that the optimizer has.
      end: The node after which the table is updated.
      nodes: What an update straight from the lookups' gradients makes needless; `end` among them.
    """

    optimizer: str
    table: str
    slots: Tuple[TensorRef, ...]
    hyperparameters: Tuple[Number, ...]
    parts: Tuple[Slices, ...]
    attributes: Dict[str, bool]
    end: str
    nodes: Tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class SparseUpdates:
    """What was found, by name of the table; a table that nothing updates is in neither.

    Attributes:
      found: The updates.
      refusals: Why the update of a table cannot be told.
    """

    found: Dict[str, SparseUpdate]
    refusals: Dict[str, Refusal]


class _Apply(NamedTuple):
    """An apply op: which inputs are what; None is a hyperparameter that is 0."""

    optimizer: str
    slots: Tuple[int, ...]
    gradient: int
    hyperparameters: Tuple[Optional[int], ...]
    attributes: Tuple[str, ...]


_APPLY = {
    "SparseApplyAdagrad": _Apply(ADAGRAD, (1,), 3, (2, None), ("update_slots",)),
    "SparseApplyAdagradV2": _Apply(ADAGRAD, (1,), 4, (2, 3), ("update_slots",)),
    "SparseApplyMomentum": _Apply(MOMENTUM, (1,), 3, (2, 5), ("use_nesterov",)),
    "SparseApplyFtrl": _Apply(FTRL, (1, 2), 3, (5, 6, 7, None, 8), ("multiply_linear_by_lr",)),
    "SparseApplyFtrlV2": _Apply(FTRL, (1, 2), 3, (5, 6, 7, 8, 9), ("multiply_linear_by_lr",)),
}
_TRUE_BY_DEFAULT = ("update_slots",)
_RESOURCE = "Resource"


def sparse_updates(view: GraphView, tables: Iterable[str]) -> SparseUpdates:
    """How each of some variables is updated.

    Args:
      view: A graph as Python wrote it.
      tables: Names of variable ops.

    Example:
      >>> sparse_updates(view, ["table"]).found["table"].optimizer
      'Adagrad'
    """
    updates = SparseUpdates({}, {})
    forward = ForwardPart(view)
    for table in dict.fromkeys(tables):
        try:
            update = _update(view, forward, table)
        except Refusal as refusal:
            updates.refusals[table] = refusal
            continue
        if update is not None:
            updates.found[table] = update
    return updates


def _update(view: GraphView, forward: ForwardPart, table: str) -> Optional[SparseUpdate]:
    writer = table_writer(view, forward, table)
    if writer is None:
        return None
    structure = Structure(view)
    try:
        update = _read(structure, table, writer)
    except Refusal as refusal:
        # Whatever the reader of the pattern called it.
        raise Refusal(
            "update_not_recognised", at=refusal.node, need=refusal.need, saw=refusal.saw
        ) from refusal
    _require_slots(view, update)
    return update


def _read(structure: Structure, table: str, writer: str) -> SparseUpdate:
    op = structure.view.op(writer)
    if op in ADAM_ENDS:
        adam = read_adam(structure, writer)
        return SparseUpdate(
            optimizer=ADAM,
            table=table,
            slots=adam.slots,
            hyperparameters=adam.hyperparameters,
            parts=adam.parts,
            attributes={"use_locking": adam.use_locking},
            end=adam.end,
            nodes=adam.nodes,
        )
    plain = op[len(_RESOURCE) :] if op.startswith(_RESOURCE) else op
    if plain in _APPLY:
        return _read_apply(structure, table, writer, _APPLY[plain])
    return _read_descent(structure, table, writer)


def _read_apply(structure: Structure, table: str, writer: str, apply: _Apply) -> SparseUpdate:
    view = structure.view
    structure.seen[writer] = None
    inputs = view.inputs(writer)
    values, indices = summed_by_row(structure, inputs[apply.gradient], inputs[apply.gradient + 1])
    parts = parts_of(structure, values, indices)
    names = (*apply.attributes, "use_locking")
    numbers: List[Number] = [
        0.0 if slot is None else number(view, inputs[slot]) for slot in apply.hyperparameters
    ]
    return SparseUpdate(
        optimizer=apply.optimizer,
        table=table,
        slots=tuple(inputs[slot] for slot in apply.slots),
        hyperparameters=tuple(numbers),
        parts=parts,
        attributes={name: _flag(view, writer, name) for name in names},
        end=writer,
        nodes=tuple(structure.seen),
    )


def _read_descent(structure: Structure, table: str, writer: str) -> SparseUpdate:
    """Rows less their gradients times a rate, duplicates and all."""
    view = structure.view
    structure.seen[writer] = None
    _, indices, change = view.inputs(writer)
    scaled, rate = structure.inputs(change, "Mul")
    structure.require(is_scalar(view, rate), rate, "a learning rate", str(view.shape(rate)))
    if view.op(writer) in ("ScatterAdd", "ResourceScatterAdd"):
        scaled = structure.inputs(scaled, "Neg")[0]
    return SparseUpdate(
        optimizer=GRADIENT_DESCENT,
        table=table,
        slots=(),
        hyperparameters=(number(view, rate),),
        parts=parts_of(structure, scaled, indices),
        attributes={"use_locking": _flag(view, writer, "use_locking")},
        end=writer,
        nodes=tuple(structure.seen),
    )


def _flag(view: GraphView, name: str, key: str) -> bool:
    """A boolean attribute; files leave out those that have their default."""
    value = view.attribute(name, key)
    return key in _TRUE_BY_DEFAULT if value is None else bool(value.b)


def _require_slots(view: GraphView, update: SparseUpdate) -> None:
    """Refuses slots that are no variables of the table's own kind, type and shape."""
    table = describe(view, update.table)
    for slot in update.slots:
        read = find_read(view, slot)
        found = None if read is None else describe(view, read.variable)
        if found is None or _kind(found) != _kind(table):
            raise Refusal(
                "slots_differ",
                at=slot.node,
                need="a variable of the shape and type of {}".format(update.table),
                saw="no variable" if found is None else "shape {}".format(found.shape),
            )


def _kind(table: Table) -> Tuple[Shape, int, bool]:
    return table.shape, table.dtype, table.is_resource
