"""Tables whose rows are exact in main although their lookups run ahead, and who writes them.

fused update        logs which rows it wrote, or a server answers with them
Assign              all rows count as written when its step ends
reads               nothing
anything else       a lookup of the table cannot run ahead
"""

from __future__ import annotations

import dataclasses
from typing import (
    TYPE_CHECKING,
    AbstractSet,
    Any,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
)

from graph_opt.compat.op_definitions import takes_reference
from graph_opt.compat.stateful_ops import SINGLE_CALLS, functions_only_read
from graph_opt.compat.variable_ops import KEEPS_ROWS, is_use
from graph_opt.graph.edits import Edits
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, Use
from graph_opt.ops.deferred_rows import row_state_name
from graph_opt.passes.node_writer import NodeWriter, free_scope
from graph_opt.passes.prefetch.handle_uses import handle_uses
from graph_opt.rules.op_names import (
    ALL_ASSIGNS,
    LOCAL_UPDATES,
    PACKED_UPDATES,
)

if TYPE_CHECKING:
    from graph_opt.passes.prefetch.exact.kind import Written

LOSE_ROWS = "LoseServedRows"
"""The op that tells a worker of a writer of tables on servers."""
_LOG_ALL = "RowLogAll"

_SCOPE = "exact_rows_writers"


class Follower(NamedTuple):
    """Who follows what becomes of a variable's rows, and is told of writers but for fused updates.

    Attributes:
      op: `RowLogAll` runs where the variable is, ahead of a writer, and has all rows count as
        written when that step ends. `LoseServedRows` runs behind a writer: a step that runs the one
        must run the other.
      device: Where `LoseServedRows` runs.
    """

    op: str
    device: str = ""


ROW_LOG = Follower(_LOG_ALL)
"""The log of the process that has the variable; its fused updates log the rows that they write."""


def worker(device: str) -> Follower:
    """The worker that looks up a variable of a server; its fused updates get new rows back."""
    return Follower(LOSE_ROWS, device)


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
      bounded: How many updates rows of the tables may miss that must not miss any number; of all
        tables, wherever they are.
      lookups: The nodes that look them up, whose results main refreshes.
      refused: Why others must stay in main, by the node that looks them up.
      followers: Who follows the rows of each variable that they read; of a sharded table,
        of this rank's part.
      side_targets: For nodes that write tables, the node by which a follower is told. A step that
        runs the one must run the other.
      read_again: What a session runs before a step once rows of waiting batches may be lost.
    """

    bounded: Mapping[str, int] = dataclasses.field(default_factory=dict)
    lookups: FrozenSet[str] = frozenset()
    refused: Mapping[str, Refusal] = dataclasses.field(default_factory=dict)
    followers: Mapping[str, Follower] = dataclasses.field(default_factory=dict)
    side_targets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    read_again: Tuple[ReadAgain, ...] = ()

    def with_kind(self, lookups: Iterable[str], written: Written) -> ExactTables:
        """The same with the lookups of one kind of table."""
        return dataclasses.replace(
            self,
            lookups=self.lookups.union(lookups),
            followers={**self.followers, **written.followers},
            side_targets={**self.side_targets, **written.side_targets},
            read_again=(*self.read_again, *written.read_again),
        )


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
    for use in handle_uses(view, variable):
        name, op = use.consumer, view.op(use.consumer)
        if only is not None and name not in only:
            continue
        if op in LOCAL_UPDATES and use.slot < view.nodes[name].attr["num_shards"].i:
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


def tell_followers(
    view: GraphView, followers: Mapping[str, Follower], only: Optional[AbstractSet[str]] = None
) -> Tuple[Rewrite, Dict[str, str]]:
    """Has followers told of what writes their variables, but for fused updates.

    Args:
      view: The graph.
      followers: Those of each variable.
      only: The nodes that may be such writers; None for all.

    Returns:
      The rewrite, and for each writer whose follower is told behind it, the node that tells: a step
      that runs the one must run the other.
    """
    scope = free_scope(view, _SCOPE)
    nodes: List[Any] = []
    edits = Edits(view)
    side_targets: Dict[str, str] = {}
    for variable, follower in sorted(followers.items()):
        writes = table_writes(view, variable, only)
        writers = list(dict.fromkeys([*writes.assigns, *(use.consumer for use in writes.others)]))
        if follower.op == LOSE_ROWS:
            nodes += _tell_behind(view, scope, writers, follower.device, side_targets)
        elif writers:
            nodes.append(_log_ahead(view, scope, variable, writers, edits))
    return edits.rewrite(nodes), side_targets


def _tell_behind(
    view: GraphView, scope: str, writers: Iterable[str], device: str, side_targets: Dict[str, str]
) -> List[Any]:
    nodes: List[Any] = []
    for name in (each for each in writers if each not in side_targets):
        writer = NodeWriter(view, "{}/{}".format(scope, name), device)
        side_targets[name] = writer.call("lose", LOSE_ROWS, waits_for=[name]).name
        nodes += writer.nodes
    return nodes


def _log_ahead(
    view: GraphView, scope: str, variable: str, writers: Iterable[str], edits: Edits
) -> Any:
    writer = NodeWriter(view, "{}/{}".format(scope, variable), view.device(variable))
    log = writer.call("all", _LOG_ALL, row_logs=[log_entry(view, variable)])
    for name in writers:
        edits.wait(name, log.name)
    return log.node


def refuse_place(node: str, saw: str) -> Refusal:
    """The refusal of a lookup whose tables are where nobody follows what becomes of rows."""
    need = "a table whose updates tell this process which rows they write (exact)"
    return Refusal("exact_elsewhere", at=node, need=need, saw=saw)


def refuse_writer(node: str, saw: str) -> Refusal:
    """The refusal of a lookup of tables that something else writes, too."""
    need = "a table that only fused updates of the rows looked up, and assignments, write (exact)"
    return Refusal("exact_table_written", at=node, need=need, saw=saw)


def _only_reads(view: GraphView, variable: str, use: Use) -> bool:
    node = view.nodes[use.consumer]
    if view.op(variable) != "VarHandleOp" and not takes_reference(node, use.slot):
        return True
    if node.op in SINGLE_CALLS:
        return functions_only_read(node, view.functions)
    return is_use(node.op, KEEPS_ROWS)
