"""Makes variables of which each rank has some rows, and keeps them so as their graph grows."""

from __future__ import annotations

from typing import AbstractSet, FrozenSet, List, NamedTuple, Sequence, Tuple

from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView
from graph_opt.passes.node_writer import free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.shard_tables.rank_parts import RankParts
from graph_opt.passes.shard_tables.sharded_table import ShardedTable
from graph_opt.passes.shard_tables.sharded_variables import ShardedVariable, ShardedVariables

_SCOPE = "sharded_tables"


class Sharded(NamedTuple):
    """What was sharded.

    Attributes:
      state: The graph after that.
      variables: The variables.
      redrawn, made_whole: As in `RankParts`.
    """

    state: PassState
    variables: ShardedVariables
    redrawn: Tuple[str, ...]
    made_whole: Tuple[str, ...]


def shard_variables(
    state: PassState,
    tables: Sequence[Tuple[ShardedTable, FrozenSet[str]]],
    memory_budget_bytes: int = 0,
) -> Sharded:
    """Gives the variables of these tables and their slots this rank's rows only.

    Args:
      state: The graph, in which lookups and updates already read this rank's rows.
      tables: The tables, each with the nodes that look its rows up or update them.
      memory_budget_bytes: As for `RankParts`.
    """
    view = state.view
    parts = RankParts(view, memory_budget_bytes)
    scope = free_scope(view, _SCOPE)
    variables: List[ShardedVariable] = []
    for table, known in tables:
        for name in table.variables:
            shape = table.table.shape
            assert shape is not None and shape[0] is not None
            variable = ShardedVariable(
                name=name,
                table=table.name,
                shape=(shape[0], table.width),
                dtype=table.table.dtype,
                is_resource=table.table.is_resource,
                rows=table.rows,
                rank=table.rank,
                scope="{}/{}".format(scope, name),
            )
            parts.shard(variable, known)
            variables.append(variable)
    sharded = ShardedVariables(
        tuple(variables), parts.fed, parts.unread, parts.values, parts.assigned
    )
    state = state.rewritten(parts.rewrite())
    return Sharded(state, sharded, tuple(parts.redrawn), tuple(parts.made_whole))


class Grown(NamedTuple):
    """What the new nodes of a graph need.

    Attributes:
      rewrite: The rewrite.
      variables: The variables, as they are after it.
    """

    rewrite: Rewrite
    variables: ShardedVariables


def shard_late_nodes(view: GraphView, sharded: ShardedVariables, new: AbstractSet[str]) -> Grown:
    """Changes what a graph got after its variables were sharded.

    Args:
      view: The graph.
      sharded: The variables.
      new: Names of its new nodes.
    """
    parts = RankParts(view)
    for variable in sharded.variables:
        parts.change_new_uses(variable, new)
    variables = ShardedVariables(
        sharded.variables,
        {**sharded.fed, **parts.fed},
        {**sharded.unread, **parts.unread},
        {**sharded.values, **parts.values},
        {**sharded.assigned, **parts.assigned},
    )
    return Grown(parts.rewrite(), variables)
