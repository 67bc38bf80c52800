"""Makes everything that reads deferred tables wait until the rows that it reads are current.

    some rows        ids -> BringToDate -^> gather                     after all that it waits for
    whole table      BringAllToDate -^> ReadVariableOp, SaveV2, Assign, ...
                     BringAllToDate -^> Identity(table) -> reader       of a reference's value

Of the second, there is one for each table and each set of nodes that readers wait for. An update
that runs later in the same step brings all rows to date once more, so BringAllToDate need not wait
for anything else that readers read. Inside a `tf.cond`, it runs only if its branch does.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import attributes_of, takes_reference, value_dtype
from graph_opt.graph.rewrite import ControlEdit, InputEdit, Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes import attribute_values as values
from graph_opt.passes.fusion.deferred import (
    DeferredVariable,
    DeferredVariables,
    ShardInputs,
    optimizers_of,
)
from graph_opt.passes.fusion.group_nodes import GroupNodes
from graph_opt.passes.fusion.table_reads import PassedOn, TableRead, table_reads
from graph_opt.passes.node_writer import NodeWriter, free_scope
from graph_opt.rules.match.table import count_tables, find_read
from graph_opt.rules.op_names import GROUP_LOOKUPS

_CONDITIONS = ("If", "StatelessIf")
_INT32 = tf.int32.as_datatype_enum
_INT64 = tf.int64.as_datatype_enum
_SCOPE = "group_embedding_to_date"


class _Moment(NamedTuple):
    """When all rows of a table are brought to date.

    Attributes:
      waits: The nodes after which they are.
      branch: The output of a Switch that must be alive.
    """

    waits: Tuple[str, ...] = ()
    branch: Optional[TensorRef] = None


_AT_ONCE = _Moment()


class BringToDate:
    """Collects the nodes and edges for the readers of some tables.

    Args:
      view: The graph.
      nodes: Collects the nodes.
      deferred: The tables, by name of the variable.
      replaced: Nodes whose work others do; they run only if they are fetched by name.

    Attributes:
      inputs: Data edges to move.
      up_to_date: Maps tensors with a whole variable's value to that value, once it is current.
      whole_reads: The readers of whole variables, without those in `replaced`.
    """

    def __init__(
        self,
        view: GraphView,
        nodes: GroupNodes,
        deferred: Mapping[str, DeferredVariable],
        replaced: AbstractSet[str] = frozenset(),
    ) -> None:
        self._view = view
        self._nodes = nodes
        self._deferred = deferred
        self._replaced = replaced
        self._all: Dict[Tuple[str, _Moment], str] = {}
        self._values: Dict[Tuple[str, str], str] = {}
        self._rows: Dict[Tuple[str, TensorRef, Tuple[str, ...]], str] = {}
        self._branches: Dict[TensorRef, str] = {}
        self._waits: Dict[str, Dict[str, None]] = {}
        self.inputs: List[InputEdit] = []
        self.up_to_date: Dict[str, str] = {}
        self.whole_reads: List[TableRead] = []

    @property
    def controls(self) -> List[ControlEdit]:
        """Control edges to add."""
        return [ControlEdit(node, (), tuple(waits)) for node, waits in self._waits.items()]

    def bring_readers(self, only: Optional[AbstractSet[str]] = None) -> None:
        """Adds what the readers among the nodes `only` need; None for all nodes."""
        group_ops: Dict[str, None] = {}
        for shard in self._deferred.values():
            for variable in shard.variables:
                found = table_reads(self._view, shard, variable, only)
                group_ops.update(dict.fromkeys(found.group_ops))
                for read in found.reads:
                    self._bring(read)
                for value in () if shard.is_resource else found.values:
                    if only is None or value.tensor.node in only:
                        self._note_value(shard, variable, value)
        for name in group_ops:
            self._bring_group_op(name)

    def write_all(self) -> str:
        """Writes a node that brings all rows of all tables to date, and returns its name."""
        every = ["^" + self._all_to_date(shard, _AT_ONCE) for shard in self._deferred.values()]
        return str(self._nodes.writer("all_to_date", "").node("done", "NoOp", every).name)

    def _bring(self, read: TableRead) -> None:
        if read.node in self._replaced:
            self._wait(read.node, self._all_to_date(read.shard, _AT_ONCE))
        elif read.rows is not None:
            self._let_wait(read, self._rows_to_date(read.shard, read.rows, self._before(read)))
        else:
            self.whole_reads.append(read)
            moment = _Moment(tuple(sorted(set(read.waits))), read.branch)
            self._let_wait(read, self._all_to_date(read.shard, moment))

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
            self._wait(read.node, source)
        else:
            value = self._value(read.variable, source)
            self.inputs.append(InputEdit(read.node, read.slot, value))

    def _wait(self, node: str, source: str) -> None:
        self._waits.setdefault(node, {})[source] = None

    def _note_value(self, shard: DeferredVariable, variable: str, value: PassedOn) -> None:
        moment = _Moment(tuple(sorted(set(value.waits))))
        current = self._value(variable, self._all_to_date(shard, moment))
        self.up_to_date[str(value.tensor)] = str(TensorRef(current, 0))

    def _all_to_date(self, shard: DeferredVariable, moment: _Moment) -> str:
        key = (shard.table, moment)
        if key not in self._all:
            found = ShardInputs([shard.table], self._deferred, shard.optimizer)
            waits = list(moment.waits)
            if moment.branch is not None:
                waits.append(self._alive(shard, moment.branch))
            node = self._nodes.writer("to_date", shard.device).node(
                "all",
                found.op("GroupEmbeddingBringAllToDate"),
                found.inputs + ["^" + source for source in waits],
                num_shards=values.integer(1),
                table_names=values.texts([shard.table]),
                **found.attributes,
            )
            self._all[key] = node.name
        return self._all[key]

    def _alive(self, shard: DeferredVariable, branch: TensorRef) -> str:
        """A node that runs if the branch of a tf.cond does: a Switch itself always does."""
        if branch not in self._branches:
            writer = self._nodes.writer("branch", shard.device)
            self._branches[branch] = self._identity(writer, branch)
        return self._branches[branch]

    def _value(self, variable: str, source: str) -> str:
        """A variable's value after node `source`."""
        key = (variable, source)
        if key not in self._values:
            writer = self._nodes.writer("value", self._view.device(variable))
            name = self._identity(writer, TensorRef(variable, 0), source)
            writer.named(name).attr["_class"].CopyFrom(values.colocated([variable]))
            self._values[key] = name
        return self._values[key]

    def _identity(self, writer: NodeWriter, tensor: TensorRef, source: str = "") -> str:
        dtype = self._view.dtype(tensor)
        node = writer.node(
            "read",
            "Identity",
            [tensor.input_name] + (["^" + source] if source else []),
            T=tf.AttrValue(type=value_dtype(dtype or 0)),
            _output_shapes=values.shapes([self._view.shape(tensor)]),
        )
        return str(node.name)

    def _rows_to_date(self, shard: DeferredVariable, ids: TensorRef, waits: Tuple[str, ...]) -> str:
        """Brings these rows to date after other nodes, as if they were looked up one by one."""
        key = (shard.table, ids, waits)
        if key not in self._rows:
            writer = self._nodes.writer("to_date", shard.device)
            found = ShardInputs([shard.table], self._deferred, shard.optimizer)
            dtype = self._view.dtype(ids) or 0
            flat = writer.node(
                "flat",
                "Reshape",
                [ids.input_name, writer.constant("shape", np.array([-1], np.int32))],
                T=tf.AttrValue(type=dtype),
                Tshape=tf.AttrValue(type=_INT32),
                _output_shapes=values.shapes([(None,)]),
            )
            nothing = writer.constant("empty", np.zeros([0], np.int64))
            node = writer.node(
                "rows",
                found.op("GroupEmbeddingBringToDate"),
                [*found.inputs, flat.name, nothing, nothing, *("^" + each for each in waits)],
                num_shards=values.integer(1),
                num_lookups=values.integer(1),
                num_weights=values.integer(0),
                id_dtypes=values.types([dtype]),
                lookup_tables=values.integers([0]),
                table_shards=values.integers([1]),
                table_names=values.texts([shard.table]),
                combiners=values.texts(["sum"]),
                layouts=values.texts(["dense"]),
                weighted=values.booleans([False]),
                default_ids=values.integers([-1]),
                safe=tf.AttrValue(b=True),
                **found.attributes,
            )
            self._rows[key] = node.name
        return self._rows[key]

    def _bring_group_op(self, name: str) -> None:
        """Brings the rows to date that an op of graph_opt's reads, which the model itself calls."""
        view = self._view
        count = count_tables(view, name)
        reads = [find_read(view, tensor) for tensor in view.inputs(name)[:count]]
        shards = [read.variable for read in reads if read is not None]
        looked_up = view.op(name) in GROUP_LOOKUPS
        kind = "GroupEmbeddingBring{}ToDate".format("" if looked_up else "Packed")
        rest = [tensor.input_name for tensor in view.inputs(name)[count:]]
        for optimizer in optimizers_of(shards, self._deferred):
            found = ShardInputs(shards, self._deferred, optimizer)
            op = found.op(kind)
            attributes = {**attributes_of(op, view.nodes[name]), **found.attributes}
            writer = self._nodes.writer("to_date", view.device(name))
            node = writer.node("rows", op, found.inputs + rest, **attributes)
            self._wait(name, node.name)


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
      `Translation.up_to_date`; both are empty if none of the nodes reads a deferred table.
    """
    tables = {shard.table: shard for shard in deferred.variables}
    nodes = GroupNodes(view, free_scope(view, _SCOPE))
    made = BringToDate(view, nodes, tables)
    made.bring_readers(new_nodes)
    if not made.inputs and not made.controls and not made.up_to_date:
        return Rewrite(), {}
    return Rewrite(tuple(nodes.nodes), tuple(made.inputs), tuple(made.controls)), made.up_to_date
