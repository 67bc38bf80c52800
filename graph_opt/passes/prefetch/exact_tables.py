"""Tables whose rows are exact in main although their lookups run ahead, and who writes them.

fused update        logs which rows it wrote, or a server answers with them
Assign              all rows count as written when its step ends
reads               nothing
anything else       a lookup of the table cannot run ahead
"""

from __future__ import annotations

import dataclasses
from typing import (
    AbstractSet,
    Any,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
)

from graph_opt.compat.op_definitions import takes_reference
from graph_opt.compat.stateful_ops import functions_only_read
from graph_opt.compat.variable_ops import KEEPS_ROWS, is_use
from graph_opt.graph.edits import Edits
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.ops.deferred_rows import row_state_name
from graph_opt.passes.node_writer import NodeWriter, free_scope
from graph_opt.rules.op_names import (
    ALL_ASSIGNS,
    OWN_UPDATES,
    PACKED_UPDATES,
    PASS_ON,
    SWITCHES,
)

LOSE_ROWS = "LoseServedRows"
"""The op that tells a worker of a writer of tables on servers."""

_SCOPE = "exact_rows_writers"
_FUNCTION_CALLS = frozenset(
    ["If", "StatelessIf", "PartitionedCall", "StatefulPartitionedCall", "Case", "StatelessCase"]
)


class ReadAgain(NamedTuple):
    """What reads a lookup's rows again for a batch that is lost.

    Attributes:
      lose: The node that tells the worker that something wrote the tables.
      loss: The tensor that says why the batch is lost, or 0: none is.
      replace: The node that gives the batch its rows.
      pooled: The node of main that uses them.
    """

    lose: str
    loss: str
    replace: str
    pooled: str


@dataclasses.dataclass(frozen=True)
class ExactTables:
    """What `async_embedding_options.exact` found.

    Attributes:
      variables: The tables of this process, shards of such and parts of tables that ranks divide,
        whose lookups may run ahead.
      bounded: How many updates rows of the tables may miss that must not miss any number; of all
        tables, wherever they are.
      lookups: The nodes that look them up, whose results main brings to date.
      refused: Why others must stay in main, by the node that looks them up.
      served: The same on servers, with the device of the worker that looks them up.
      side_targets: For nodes that write tables on servers, the node that tells the worker. A step
        that runs the one must run the other.
      read_again: What a session runs before a step once rows of waiting batches may be lost.
    """

    variables: FrozenSet[str] = frozenset()
    bounded: Mapping[str, int] = dataclasses.field(default_factory=dict)
    lookups: FrozenSet[str] = frozenset()
    refused: Mapping[str, Refusal] = dataclasses.field(default_factory=dict)
    served: Mapping[str, str] = dataclasses.field(default_factory=dict)
    side_targets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    read_again: Tuple[ReadAgain, ...] = ()


class TableWrites(NamedTuple):
    """What writes a variable.

    Attributes:
      updates: Fused updates of it as a table, in its own process.
      packed: Those on its server of what a worker sent.
      assigns: What sets all of it.
      others: What else may write it.
    """

    updates: Tuple[str, ...]
    packed: Tuple[str, ...]
    assigns: Tuple[str, ...]
    others: Tuple[Use, ...]


def table_writes(
    view: GraphView, variable: str, only: Optional[AbstractSet[str]] = None
) -> TableWrites:
    """Finds them.

    Args:
      view: The graph.
      variable: Name of the variable.
      only: Nodes to consider; None for all.
    """
    updates: List[str] = []
    packed: List[str] = []
    assigns: List[str] = []
    others: List[Use] = []
    for use in _uses(view, variable):
        name, op = use.consumer, view.op(use.consumer)
        if only is not None and name not in only:
            continue
        if op in OWN_UPDATES and use.slot < view.nodes[name].attr["num_shards"].i:
            updates.append(name)
        elif op in PACKED_UPDATES and use.slot < view.nodes[name].attr["num_shards"].i:
            packed.append(name)
        elif op in ALL_ASSIGNS and use.slot == 0:
            assigns.append(name)
        elif not _only_reads(view, variable, use):
            others.append(use)
    return TableWrites(tuple(updates), tuple(packed), tuple(assigns), tuple(others))


def log_entry(view: GraphView, variable: str) -> str:
    """The entry of `row_logs` for a variable."""
    shared, container = (view.attribute(variable, key) for key in ("shared_name", "container"))
    texts = ["" if each is None else each.s.decode("utf-8") for each in (shared, container)]
    return row_state_name(variable, *texts)


def log_writers(
    view: GraphView, variables: AbstractSet[str], only: Optional[AbstractSet[str]] = None
) -> Rewrite:
    """Has the steps of these variables' writers, but for fused updates, log that all rows changed.

    Args:
      view: The graph.
      variables: The variables.
      only: The nodes that may be such writers; None for all.
    """
    scope = free_scope(view, _SCOPE)
    nodes: List[Any] = []
    edits = Edits(view)
    for variable in sorted(variables):
        writes = table_writes(view, variable, only)
        writers = dict.fromkeys([*writes.assigns, *(use.consumer for use in writes.others)])
        if not writers:
            continue
        writer = NodeWriter(view, "{}/{}".format(scope, variable), view.device(variable))
        log = writer.call("all", "RowLogAll", row_logs=[log_entry(view, variable)])
        nodes.append(log.node)
        for name in writers:
            edits.wait(name, log.name)
    return edits.rewrite(nodes)


def tell_writers(
    view: GraphView, served: Mapping[str, str], only: Optional[AbstractSet[str]] = None
) -> Tuple[Rewrite, Dict[str, str]]:
    """Has workers told what writes their servers' tables, but for fused updates.

    Args:
      view: The graph.
      served: See `ExactTables`.
      only: The nodes that may be such writers; None for all.

    Returns:
      The rewrite, and for each writer the node that a step which runs it must run, too.
    """
    scope = free_scope(view, _SCOPE)
    nodes: List[Any] = []
    side_targets: Dict[str, str] = {}
    for variable, worker in sorted(served.items()):
        writes = table_writes(view, variable, only)
        for name in (*writes.assigns, *(use.consumer for use in writes.others)):
            if name not in side_targets:
                writer = NodeWriter(view, "{}/{}".format(scope, name), worker)
                side_targets[name] = writer.call("lose", LOSE_ROWS, waits_for=[name]).name
                nodes += writer.nodes
    return Rewrite(tuple(nodes)), side_targets


def refuse_place(node: str, saw: str) -> Refusal:
    """The refusal of a lookup whose tables are where nobody follows what becomes of rows."""
    need = "a table whose updates tell this process which rows they write (exact)"
    return Refusal("exact_elsewhere", at=node, need=need, saw=saw)


def refuse_writer(node: str, saw: str) -> Refusal:
    """The refusal of a lookup of tables that something else writes, too."""
    need = "a table that only fused updates of the rows looked up, and assignments, write (exact)"
    return Refusal("exact_table_written", at=node, need=need, saw=saw)


def _uses(view: GraphView, variable: str) -> Iterator[Use]:
    """Who takes a variable's reference or handle, also through a Switch and the like."""
    is_resource = view.op(variable) == "VarHandleOp"
    pending = [TensorRef(variable, 0)]
    for tensor in pending:
        for use in view.uses(tensor):
            op = view.op(use.consumer)
            passed_on = is_resource or takes_reference(view.nodes[use.consumer], use.slot)
            if use.slot == 0 and op in PASS_ON and passed_on:
                pending.append(TensorRef(use.consumer, 0))
            elif use.slot == 0 and op in SWITCHES and passed_on:
                pending += [TensorRef(use.consumer, 0), TensorRef(use.consumer, 1)]
            else:
                yield use


def _only_reads(view: GraphView, variable: str, use: Use) -> bool:
    node = view.nodes[use.consumer]
    if view.op(variable) != "VarHandleOp" and not takes_reference(node, use.slot):
        return True
    if node.op in _FUNCTION_CALLS:
        functions = {each.signature.name: each for each in view.library.function}
        return functions_only_read(node, functions)
    return is_use(node.op, KEEPS_ROWS)
