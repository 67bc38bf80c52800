"""Makes everything that reads deferred tables wait until the rows that it reads are current.

    some rows        ids -> CatchUp -^> gather                     after all that it waits for
    whole table      CatchUpAll -^> ReadVariableOp, SaveV2, Assign, ...
                     CatchUpAll -^> Identity(table) -> reader       of a reference's value

Of the second, there is one for each table and each set of nodes that readers wait for. An update
that runs later in the same step catches up all rows once more, so CatchUpAll need not wait
for anything else that readers read. Inside a `tf.cond`, it runs only if its branch does.

`CatchUp` draws on state only as the lookup behind it does, and so runs ahead with that lookup.
Fused lookups are caught up as their kind looks them up: of tables on servers, and of
those that ranks divide, an op beside the gather catches up the rows that others ask it for.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Mapping, Optional, Tuple

from graph_opt.compat.op_definitions import takes_reference
from graph_opt.graph.edits import Edits
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.catch_up_nodes import CatchUpNodes, Moment
from graph_opt.passes.fusion.deferred import (
    DeferredVariable,
    DeferredVariables,
)
from graph_opt.passes.fusion.group_nodes import GroupNodes
from graph_opt.passes.fusion.table_reads import PassedOn, TableRead, table_reads
from graph_opt.passes.node_writer import free_scope
from graph_opt.rules.op_names import ROW_READERS

_CONDITIONS = ("If", "StatelessIf")
_SCOPE = "group_embedding_catch_up"


class CatchUp:
    """Collects the nodes and edges for the readers of some tables.

    Args:
      view: The graph.
      nodes: Collects the nodes.
      edits: Collects the edits.
      deferred: The tables, by name of the variable.
      replaced: Nodes whose work others do; they run only if they are fetched by name.

    Attributes:
      current_values: Maps tensors with a whole variable's value to that value, once it is current.
      whole_reads: The readers of whole variables, without those in `replaced`.
    """

    def __init__(
        self,
        view: GraphView,
        nodes: GroupNodes,
        edits: Edits,
        deferred: Mapping[str, DeferredVariable],
        replaced: AbstractSet[str] = frozenset(),
    ) -> None:
        self._view = view
        self._catch_up = CatchUpNodes(view, nodes, deferred)
        self._deferred = deferred
        self._replaced = replaced
        self._edits = edits
        self.current_values: Dict[str, str] = {}
        self.whole_reads: List[TableRead] = []

    def add_readers(self, only: Optional[AbstractSet[str]] = None) -> None:
        """Adds what the readers among the nodes `only` need; None for all nodes."""
        group_ops: Dict[str, None] = {}
        for shard in self._deferred.values():
            for variable in shard.variables:
                found = table_reads(self._view, shard, variable, only)
                group_ops.update(dict.fromkeys(found.group_ops))
                for read in found.reads:
                    self._add(read)
                has_values = not shard.is_resource and shard.is_behind(variable)
                for value in found.values if has_values else ():
                    if only is None or value.tensor.node in only:
                        self._note_value(shard, variable, value)
        for name in group_ops:
            self._add_group_op(name)

    def write_all(self) -> str:
        """Writes a node that catches up all rows of all tables, and returns its name."""
        return self._catch_up.all_tables()

    def _add(self, read: TableRead) -> None:
        if read.node in self._replaced:
            self._edits.wait(read.node, self._catch_up.all_rows(read.shard))
        elif not read.shard.is_behind(read.variable) and self._only_reads(read):
            return
        elif read.rows is not None:
            before = self._before(read)
            rows = self._catch_up.some_rows(read.shard, read.variable, read.rows, before)
            self._let_wait(read, rows)
        else:
            self.whole_reads.append(read)
            moment = Moment(tuple(sorted(set(read.waits))), read.branch)
            self._let_wait(read, self._catch_up.all_rows(read.shard, moment))

    def _only_reads(self, read: TableRead) -> bool:
        """Whether a node is certain not to write the variable."""
        node = self._view.nodes[read.node]
        if not read.shard.is_resource:
            return not takes_reference(node, read.slot)
        return node.op == "ReadVariableOp" or node.op in ROW_READERS

    def _before(self, read: TableRead) -> Tuple[str, ...]:
        """What a reader of some rows waits for, by constants of its own as well.

        TensorFlow lets only the first op of a `tf.control_dependencies` wait, which for a gather
        is the constant that holds its axis.
        """
        view = self._view
        others = [
            tensor.node
            for slot, tensor in enumerate(view.inputs(read.node))
            if slot != read.slot and tensor != read.rows
        ]
        waiting = [node for node in others if view.op(node) != "Const" or view.controls(node)]
        return tuple(sorted({*read.waits, *waiting}))

    def _let_wait(self, read: TableRead, source: str) -> None:
        """Makes a node wait; if it reads a copy of a reference's value, makes the copy wait."""
        is_by_reference = takes_reference(self._view.nodes[read.node], read.slot)
        # A tf.cond may ask whether the variable has a value, which an Identity would need.
        may_wait = read.rows is not None or self._view.op(read.node) in _CONDITIONS
        waits_itself = may_wait and read.in_place
        if read.shard.is_resource or is_by_reference or waits_itself:
            self._edits.wait(read.node, source)
        else:
            value = self._catch_up.value(read.variable, source)
            self._edits.move_input(read.node, read.slot, value)

    def _note_value(self, shard: DeferredVariable, variable: str, value: PassedOn) -> None:
        moment = Moment(tuple(sorted(set(value.waits))))
        current = self._catch_up.value(variable, self._catch_up.all_rows(shard, moment))
        self.current_values[str(value.tensor)] = str(TensorRef(current, 0))

    def _add_group_op(self, name: str) -> None:
        """Lets an op of graph_opt's wait that the model itself calls."""
        for source in self._catch_up.rows_of_group_op(name):
            self._edits.wait(name, source)


def rewrite_for_new_readers(
    view: GraphView, deferred: DeferredVariables, new_nodes: AbstractSet[str]
) -> Tuple[Rewrite, Dict[str, str]]:
    """What readers need that were added to a graph after it had been rewritten.

    Args:
      view: The graph as it runs.
      deferred: Its deferred tables.
      new_nodes: The nodes that were added since.

    Returns:
      The rewrite, which moves only edges into new nodes, and additions to
      `DeferredVariables.current_values`; both are empty if no node reads a deferred table.
    """
    tables = {shard.table: shard for shard in deferred.variables}
    nodes, edits = GroupNodes(view, free_scope(view, _SCOPE)), Edits(view)
    made = CatchUp(view, nodes, edits, tables)
    made.add_readers(new_nodes)
    if not edits and not made.current_values:
        return Rewrite(), {}
    return edits.rewrite(nodes.nodes), made.current_values
