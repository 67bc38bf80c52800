"""Makes variables of which each rank has some rows, and keeps them so as their graph grows."""

from __future__ import annotations

from typing import AbstractSet, FrozenSet, List, NamedTuple, Sequence, Tuple

from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView
from graph_opt.passes.node_writer import free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.shard_tables.divided_variables import DividedVariable, DividedVariables
from graph_opt.passes.shard_tables.rank_parts import RankParts
from graph_opt.passes.shard_tables.sharded_table import ShardedTable

_SCOPE = "divided_tables"


class Divided(NamedTuple):
    """What was divided.

    Attributes:
      state: The graph after that.
      variables: The variables.
      redrawn, made_whole: As in `RankParts`.
    """

    state: PassState
    variables: DividedVariables
    redrawn: Tuple[str, ...]
    made_whole: Tuple[str, ...]


def divide_variables(
    state: PassState,
    tables: Sequence[Tuple[ShardedTable, FrozenSet[str]]],
    memory_budget_bytes: int = 0,
) -> Divided:
    """Gives the variables of these tables and their slots this rank's rows only.

    Args:
      state: The graph, in which lookups and updates already read this rank's rows.
      tables: The tables, each with the nodes that look its rows up or update them.
      memory_budget_bytes: As for `RankParts`.
    """
    view = state.view
    parts = RankParts(view, memory_budget_bytes)
    scope = free_scope(view, _SCOPE)
    variables: List[DividedVariable] = []
    for table, known in tables:
        for name in table.variables:
            shape = table.table.shape
            assert shape is not None and shape[0] is not None
            variable = DividedVariable(
                name=name,
                table=table.name,
                shape=(shape[0], table.width),
                dtype=table.table.dtype,
                is_resource=table.table.is_resource,
                rows=table.rows,
                rank=table.rank,
                scope="{}/{}".format(scope, name),
            )
            parts.divide(variable, known)
            variables.append(variable)
    divided = DividedVariables(
        tuple(variables), parts.fed, parts.unread, parts.values, parts.assigned
    )
    state = state.rewritten(parts.rewrite())
    return Divided(state, divided, tuple(parts.redrawn), tuple(parts.made_whole))


class Grown(NamedTuple):
    """What the new nodes of a graph need.

    Attributes:
      rewrite: The rewrite.
      variables: The variables, as they are after it.
    """

    rewrite: Rewrite
    variables: DividedVariables


def divide_for_late_nodes(
    view: GraphView, divided: DividedVariables, new: AbstractSet[str]
) -> Grown:
    """Changes what a graph got after its variables were divided.

    Args:
      view: The graph.
      divided: The variables.
      new: Names of its new nodes.
    """
    parts = RankParts(view)
    for variable in divided.variables:
        parts.change_new_uses(variable, new)
    variables = DividedVariables(
        divided.variables,
        {**divided.fed, **parts.fed},
        {**divided.unread, **parts.unread},
        {**divided.values, **parts.values},
        {**divided.assigned, **parts.assigned},
    )
    return Grown(parts.rewrite(), variables)
