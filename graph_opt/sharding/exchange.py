"""Lookups in tables that are divided among ranks: one exchange for all tables of a dtype."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import handle_for_op
from graph_opt.ops.exchange import exchange_lookup
from graph_opt.ops.group_embedding import NO_DEFAULT, GroupAttributes, GroupIds
from graph_opt.ops.packed_embedding import ShardPlacement
from graph_opt.ops.stock_lookup import LookupIds
from graph_opt.sharding.placement import DIV, MOD, DivRows, RowsOnRank, RowsRule
from graph_opt.sharding.transport import Transport

_SCOPE = "graph_opt/"


class DividedTable(NamedTuple):
    """A table of which this rank has a part.

    Attributes:
      name: The same on all ranks.
      part: The resource variable with this rank's part, [rows, width]; no rows if it has none.
      rows: How rows are divided.
      width: Number of columns.
    """

    name: str
    part: Any
    rows: RowsRule
    width: int


class TableLookup(NamedTuple):
    """One lookup.

    Attributes:
      table: The table.
      ids: What this rank looks up; any number of bags.
      combiner: `sum`, `mean` or `sqrtn`.
    """

    table: DividedTable
    ids: LookupIds
    combiner: str


@tf.autograph.experimental.do_not_convert
def look_up(
    lookups: Sequence[TableLookup], transport: Transport, safe: bool = False
) -> List[tf.Tensor]:
    """Pools rows, wherever they are. All ranks must make the same lookups in the same order.

    Args:
      lookups: What is looked up.
      transport: How to reach the other ranks; with one rank nothing is sent.
      safe: Whether to drop ids < 0 and weights that are not > 0, as
        `tf.nn.safe_embedding_lookup_sparse` does. A bag without ids gives zeros either way.

    Returns:
      [B, D] for each lookup, of its table's dtype. Gradients of the tables are IndexedSlices with
      this rank's rows, summed over ranks in their order.
    """
    places: Dict[Any, List[int]] = {}
    for place, lookup in enumerate(lookups):
        places.setdefault(lookup.table.part.dtype.base_dtype, []).append(place)
    pooled: List[Optional[tf.Tensor]] = [None] * len(lookups)
    for dtype, of_dtype in places.items():
        results = _exchange([lookups[place] for place in of_dtype], dtype, transport, safe)
        for place, result in zip(of_dtype, results):
            pooled[place] = result
    return [result for result in pooled if result is not None]


def _exchange(
    lookups: Sequence[TableLookup], dtype: Any, transport: Transport, safe: bool
) -> List[tf.Tensor]:
    tables = {id(lookup.table.part): lookup.table for lookup in lookups}
    order = list(tables)
    rules = [table.rows for table in tables.values()]
    attributes = GroupAttributes(
        lookup_tables=[order.index(id(lookup.table.part)) for lookup in lookups],
        table_shards=[len(_ranks(rule)) for rule in rules],
        table_names=[table.name for table in tables.values()],
        combiners=[lookup.combiner for lookup in lookups],
        layouts=[lookup.ids.layout for lookup in lookups],
        weighted=[lookup.ids.weights is not None for lookup in lookups],
        default_ids=[NO_DEFAULT] * len(lookups),
        partition_strategies=[DIV if isinstance(rule, DivRows) else MOD for rule in rules],
        safe=safe,
    )
    placement = ShardPlacement(
        rows=[rule.num_local_rows(rank) for rule in rules for rank in _ranks(rule)],
        servers=[rank for rule in rules for rank in _ranks(rule)],
        num_servers=transport.size,
    )
    ids = GroupIds(
        ids=[lookup.ids.ids for lookup in lookups],
        positions=[lookup.ids.positions for lookup in lookups],
        shapes=[lookup.ids.shape for lookup in lookups],
        weights=[lookup.ids.weights for lookup in lookups if lookup.ids.weights is not None],
    )
    name = transport.message_name("graph_opt_exchange")
    with tf.name_scope(_SCOPE):
        return exchange_lookup(
            [handle_for_op(table.part) for table in tables.values()],
            ids,
            attributes,
            placement,
            transport.rank,
            [table.width for table in tables.values()],
            [dtype] * len(order),
            transport.all_to_all,
            name,
        )


def _ranks(rule: RowsRule) -> Sequence[int]:
    """The ranks with a shard, in the order in which the ops number shards."""
    return [rule.rank] if isinstance(rule, RowsOnRank) else range(rule.num_ranks)
