"""What the fused update of a table takes: gradients of pooled rows, or IndexedSlices.

    all gradients are those of fused lookups of one kind        gradients of pooled rows ──> update
    others: clipped, averaged, accumulated, of other lookups    IndexedSlices ──> update

IndexedSlices are what a plain lookup of `indices` has as its gradient if that of its result is
`values`. So the ops of updates take them like the gradients of lookups. What computes the slices
is fused as far as its numbers stay the same: one op makes those of combined rows, of which
TensorFlow's gradient has each row once, too.
"""

from __future__ import annotations

from typing import Callable, Dict, Hashable, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat.op_definitions import value_dtype
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.passes.fusion.candidates import Candidate, Member, slices_member
from graph_opt.passes.fusion.kinds.choice import fused_kind_of_slices
from graph_opt.passes.fusion.kinds.kind import FusedKind
from graph_opt.passes.fusion.merge_order import waiting_for
from graph_opt.passes.fusion.update_arguments import POWERS
from graph_opt.rules.gradients.rows import Slices
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.optimizers.sparse_update import SparseUpdate, SparseUpdates
from graph_opt.rules.optimizers.update_inputs import value_key

_FLOAT32 = 1


class TrainedTable(NamedTuple):
    """A table, and who reads it.

    Attributes:
      names: Names of the variables, shards in order.
      lookups: All its lookups.
      fused: Those that are fused and whose gradients are known.
    """

    names: Tuple[str, ...]
    lookups: Tuple[Lookup, ...]
    fused: Tuple[Candidate, ...]


class UpdateGroup(NamedTuple):
    """Tables whose updates become one op.

    Attributes:
      kind: Where the tables are, and where the gradients come from.
      members: The gradients that the op takes, in order.
      updates: The stock updates, by name of the variable.
      tables: The tables; of a partitioned one, perhaps only some shards are in `updates`.
    """

    kind: FusedKind
    members: Tuple[Member, ...]
    updates: Dict[str, SparseUpdate]
    tables: Tuple[TrainedTable, ...]


def trained_tables(lookups: Iterable[Lookup], fused: Sequence[Candidate]) -> List[TrainedTable]:
    """The tables of some lookups; those that share a variable are one table.

    Args:
      lookups: The lookups of these tables, in graph order.
      fused: Those that are fused and whose gradients are known.
    """
    tables: Dict[str, TrainedTable] = {}
    for lookup in lookups:
        names = tuple(table.name for table in lookup.tables)
        met = {tables[name].names: tables[name] for name in names if name in tables}.values()
        together = TrainedTable(
            tuple(dict.fromkeys([*(name for table in met for name in table.names), *names])),
            (*(one for table in met for one in table.lookups), lookup),
            (),
        )
        tables.update(dict.fromkeys(together.names, together))
    of_table: Dict[Tuple[str, ...], List[Candidate]] = {}
    for candidate in fused:
        table = tables.get(candidate.tables[0])
        if table is not None:
            of_table.setdefault(table.names, []).append(candidate)
    return [
        table._replace(fused=tuple(of_table.get(names, ())))
        for names, table in {table.names: table for table in tables.values()}.items()
    ]


def table_updates(
    view: GraphView,
    table: TrainedTable,
    kinds: Dict[str, FusedKind],
    updates: SparseUpdates,
    require_ops: Callable[[FusedKind, str], None],
) -> List[UpdateGroup]:
    """The update of one table: one for all shards if it takes gradients of pooled rows.

    Args:
      view: The graph.
      table: The table.
      kinds: Where fused lookups run, by name of the lookup.
      updates: The updates that were recognised.
      require_ops: Refuses a kind whose servers lack our ops; takes the table's name, too.

    Raises:
      Refusal: The update is not fused.
    """
    found = {name: _update_of(view, name, updates) for name in table.names}
    pooled = _from_pooled_rows(view, table, kinds, found)
    if pooled is not None:
        return [pooled]
    return [_from_slices(view, table, update, require_ops) for update in found.values()]


def optimizer_key(view: GraphView, update: SparseUpdate, with_powers: bool = True) -> Hashable:
    """What updates by one op have in common.

    Args:
      view: The graph.
      update: An update.
      with_powers: Whether that includes `POWERS`.
    """
    flags = tuple(sorted(update.attributes.items()))
    kind = (update.optimizer, update.moves_every_row, update.average is not None)
    names = optimizer_specs()[update.optimizer].hyperparameters
    differ = not with_powers and not update.moves_every_row and update.average is None
    hyperparameters = tuple(
        value_key(view, value)
        for name, value in zip(names, update.hyperparameters)
        if not (differ and name in POWERS)
    )
    return kind, hyperparameters, flags, update.branches


def semantics(candidate: Candidate) -> Tuple[Hashable, ...]:
    """What all lookups of one op have in common."""
    table, inputs = candidate.lookup.tables[0], candidate.inputs
    parted = len(candidate.tables) > 1 and not table.is_dynamic
    return (
        inputs.safe,
        inputs.partition_strategy if parted else "",
        table.is_resource,
        inputs.insert if table.is_dynamic and inputs.insert is not True else None,
    )


def _from_pooled_rows(
    view: GraphView,
    table: TrainedTable,
    kinds: Dict[str, FusedKind],
    updates: Dict[str, SparseUpdate],
) -> Optional[UpdateGroup]:
    """The update from the gradients of pooled rows, if it takes no other gradients."""
    own = all(kinds[candidate.name].takes_own_powers for candidate in table.fused)
    alike = (
        {optimizer_key(view, update, with_powers=not own) for update in updates.values()},
        {waiting_for(view, update.end) for update in updates.values()},
        {semantics(candidate) for candidate in table.fused},
        {kinds[candidate.name] for candidate in table.fused},
    )
    if any(len(kinds) != 1 for kinds in alike) or any(u.branches for u in updates.values()):
        return None
    if any(candidate.tables != table.names for candidate in table.fused):
        return None
    shards = [_members(table.fused, i, updates[name]) for i, name in enumerate(table.names)]
    if shards[0] is None or any(members != shards[0] for members in shards):
        return None
    return UpdateGroup(kinds[table.fused[0].name], shards[0], updates, (table,))


def _members(
    candidates: Sequence[Candidate], shard: int, update: SparseUpdate
) -> Optional[Tuple[Member, ...]]:
    """The lookups whose gradients are summed into a shard, in the order of the sum."""
    known: Dict[Slices, Member] = {}
    for candidate in candidates:
        for gradient in candidate.gradients:
            known[gradient.slices[shard]] = Member(candidate, gradient)
    members = [known.get(part) for part in update.parts]
    return None if None in members else tuple(member for member in members if member)


def _from_slices(
    view: GraphView,
    table: TrainedTable,
    update: SparseUpdate,
    require_ops: Callable[[FusedKind, str], None],
) -> UpdateGroup:
    """The update of one shard from its gradients as they are."""
    shards = [shard for lookup in table.lookups for shard in lookup.tables]
    shard = next(shard for shard in shards if shard.name == update.table)
    fixed, row = shard.fixed_shape, shard.row_shape
    if fixed is None or row is None or None in fixed or 0 in row:
        raise Refusal(
            "table_not_supported",
            at=shard.name,
            need="a table of static shape",
            saw="shape {}".format(shard.shape),
        )
    for part in update.parts:
        if view.dtype(part.values) is None or view.dtype(part.indices) is None:
            need = "slices made by ops that this process has registered"
            raise Refusal("unknown_op", at=part.values.node, need=need, saw="others")
    kind = fused_kind_of_slices(view, shard, update.parts)
    require_ops(kind, shard.name)
    members = tuple(slices_member(shard, part) for part in update.parts)
    return UpdateGroup(kind, members, {shard.name: update}, (table,))


def _update_of(view: GraphView, name: str, updates: SparseUpdates) -> SparseUpdate:
    if name in updates.refusals:
        raise updates.refusals[name]
    if name not in updates.found:
        raise Refusal(
            "update_not_recognised", at=name, need="one sparse update of the table", saw="none"
        )
    update = updates.found[name]
    dtype = view.attribute(name, "dtype")
    if dtype is None or dtype.type != _FLOAT32:
        raise Refusal(
            "update_dtype", at=update.end, need="a float32 table", saw="a table of another type"
        )
    for value in update.hyperparameters:
        if isinstance(value, TensorRef) and value_dtype(view.dtype(value) or 0) != _FLOAT32:
            raise Refusal(
                "update_dtype", at=value.node, need="a float32 hyperparameter", saw="another type"
            )
    if view.node_uses(update.end):
        raise Refusal(
            "update_output_read",
            at=update.end,
            need="an update that nothing reads",
            saw="a reader of its result: {}".format(view.node_uses(update.end)[0][1].consumer),
        )
    return update
