"""How optimizers update a table with sparse gradients.

    values, indices of one lookup, or ConcatV2 of several lookups'
        -> one op, by the optimizer's spec         single_op
        or -> a product and a scatter              gradient_descent
        or -> many ops                             adam, adam_w, adamax, keras_rms_prop, row_decay
        or -> an op of graph_opt's own             own_op
        or -> one op for keys of a dynamic table   dynamic_table

Anything between the lookups' gradients and this (clipping, scaling, communication) is ignored: the
parts are then what it produced, rather than gradients of lookups.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Dict, Iterable, Iterator, List, Optional, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.rules.gradients.gather import Slices
from graph_opt.rules.lookup import Table
from graph_opt.rules.match.forward import ForwardPart
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.match.table import describe, find_read
from graph_opt.rules.op_names import ALL_ASSIGNS
from graph_opt.rules.optimizers import (
    adam,
    adam_w,
    adamax,
    amsgrad,
    dynamic_table,
    gradient_descent,
    keras_rms_prop,
    own_op,
    single_op,
)
from graph_opt.rules.optimizers.moving_average import MovingAverage
from graph_opt.rules.optimizers.row_decay import after_row_decay
from graph_opt.rules.optimizers.table_writers import Branch, Writer, assigned, table_writer
from graph_opt.rules.optimizers.update_form import GRADIENT, UpdateForm, read_update
from graph_opt.rules.optimizers.update_inputs import Hyperparameter, parts_of


@dataclasses.dataclass(frozen=True)
class SparseUpdate:
    """The update of one variable with sparse gradients.

    Attributes:
      optimizer: Name of its spec (`graph_opt/ops/optimizers.py`).
      table: Name of the variable.
      slots: References or handles, in the order of the spec.
      hyperparameters: In the order of the spec; values of constants, tensors otherwise.
      parts: The IndexedSlices whose sum is applied, in order.
      attributes: The spec's flags and `use_locking`.
      moves_every_row: Whether it also moves rows not in the parts, unlike a fused update.
      end: The node after which the table is updated.
      slot_ends: The nodes after which slots are, where `end` does not wait for them.
      nodes: What an update directly from the lookups' gradients makes superfluous, including `end`.
      branches: The branches of tf.cond that it is in, outermost first; empty if it runs in every
        step.
      average: The step of the table's average over time, if that is to be deferred.
    """

    optimizer: str
    table: str
    slots: Tuple[TensorRef, ...]
    hyperparameters: Tuple[Hyperparameter, ...]
    parts: Tuple[Slices, ...]
    attributes: Dict[str, bool]
    moves_every_row: bool
    end: str
    slot_ends: Tuple[str, ...]
    nodes: Tuple[str, ...]
    branches: Tuple[Branch, ...] = ()
    average: Optional[MovingAverage] = None


@dataclasses.dataclass(frozen=True)
class SparseUpdates:
    """What was found, by name of the table; a table that nothing updates is in neither.

    Attributes:
      found: The updates.
      refusals: Why the update of a table was not recognised.
    """

    found: Dict[str, SparseUpdate]
    refusals: Dict[str, Refusal]


@functools.lru_cache(maxsize=None)
def _forms() -> Dict[str, List[UpdateForm]]:
    """The forms of updates, by the op that writes the table."""
    forms: Dict[str, List[UpdateForm]] = {}
    of_several_ops = (adam, adam_w, adamax, amsgrad, gradient_descent, keras_rms_prop)
    others = (module.FORM for module in (*of_several_ops, own_op))
    for form in (*single_op.forms(), *dynamic_table.forms(), *others):
        for op_type in form.ends:
            forms.setdefault(op_type, []).append(form)
    return forms


def sparse_updates(view: GraphView, tables: Iterable[str]) -> SparseUpdates:
    """Finds out how each of these variables is updated.

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


def dense_gradients(view: GraphView) -> Iterator[TensorRef]:
    """What updates take as the gradient of a whole variable, which may be made of slices."""
    for op_type, forms in _forms().items():
        for writer in view.of_op(op_type):
            for form in forms:
                match = Match(view)
                if form.pattern.match(match, TensorRef(writer, 0)) and GRADIENT in match.tensors:
                    yield match.tensors[GRADIENT]


def _update(view: GraphView, forward: ForwardPart, table: str) -> Optional[SparseUpdate]:
    writer = table_writer(view, forward, table, frozenset(_forms()))
    if writer is None:
        return None
    try:
        update = _read(view, table, writer)
    except Refusal as refusal:
        if refusal.code != "lookup_differs":
            raise
        if view.op(writer.node) in ALL_ASSIGNS:
            raise assigned(view, writer.node) from refusal
        # One code for all the ways in which updates can differ.
        raise Refusal(
            "update_not_recognised", at=refusal.node, need=refusal.need, saw=refusal.saw
        ) from refusal
    _require_slots(view, update)
    return update


def _read(view: GraphView, table: str, writer: Writer) -> SparseUpdate:
    found = read_update(view, writer.node, _forms()[view.op(writer.node)])
    if writer.decay:
        found = after_row_decay(view, found, writer.decay)
    structure = Structure(view)
    parts = [part for slices in found.slices for part in parts_of(structure, *slices)]
    return SparseUpdate(
        optimizer=found.optimizer,
        table=table,
        slots=found.slots,
        hyperparameters=found.hyperparameters,
        parts=tuple(parts),
        attributes=found.attributes,
        moves_every_row=not found.is_lazy and optimizer_specs()[found.optimizer].moves_every_row,
        end=found.end,
        slot_ends=found.slot_ends,
        nodes=tuple(dict.fromkeys([*found.nodes, *structure.seen])),
        branches=writer.branches,
    )


def _require_slots(view: GraphView, update: SparseUpdate) -> None:
    """Refuses slots that are not variables of the table's kind, dtype and shape."""
    table = describe(view, update.table)
    for slot in update.slots:
        read = find_read(view, slot)
        found = None if read is None else describe(view, read.variable)
        if found is None or _kind(found) != _kind(table):
            raise Refusal(
                "slots_differ",
                at=slot.node,
                need="a variable of the shape and type of {}".format(update.table),
                saw="something else" if found is None else "shape {}".format(found.shape),
            )


def _kind(table: Table) -> Tuple[Shape, int, bool, bool]:
    return table.shape, table.dtype, table.is_resource, table.is_dynamic
