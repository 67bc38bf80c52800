"""Writes the nodes that catch up rows of deferred tables, each of them once."""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat.op_definitions import attributes_of
from graph_opt.graph.op_call import inputs_by_name
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.served_variables import places_of_variables
from graph_opt.passes.fusion.deferred import (
    DeferredVariable,
    Need,
    ShardInputs,
    by_variable,
    needs_of,
)
from graph_opt.passes.fusion.group_nodes import GroupNodes
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.match.table import count_tables, find_read
from graph_opt.rules.op_names import EXCHANGE_GATHERS, GROUP_READERS


class Moment(NamedTuple):
    """When all rows of a table are caught up.

    Attributes:
      waits: The nodes after which they are.
      branch: The output of a Switch that must be alive.
    """

    waits: Tuple[str, ...] = ()
    branch: Optional[TensorRef] = None


_AT_ONCE = Moment()


class CatchUpNodes:
    """Collects the nodes that catch up rows, for whatever asks for them.

    Args:
      view: The graph.
      nodes: Collects the nodes.
      deferred: The tables, by name of the variable.
    """

    def __init__(
        self, view: GraphView, nodes: GroupNodes, deferred: Mapping[str, DeferredVariable]
    ) -> None:
        self._view = view
        self._nodes = nodes
        self._deferred = by_variable(deferred)
        self._tables = tuple(deferred.values())
        self._all: Dict[Tuple[str, Moment], str] = {}
        self._values: Dict[Tuple[str, str], str] = {}
        self._rows: Dict[Tuple[str, TensorRef, Tuple[str, ...]], str] = {}
        self._branches: Dict[TensorRef, str] = {}

    def all_tables(self) -> str:
        """A node that catches up all rows of all tables."""
        every = [self.all_rows(shard) for shard in self._tables]
        return self._nodes.writer("catch_up_all", "").call("done", "NoOp", waits_for=every).name

    def all_rows(self, shard: DeferredVariable, moment: Moment = _AT_ONCE) -> str:
        """A node that catches up all rows of a table."""
        key = (shard.table, moment)
        if key not in self._all:
            found = self._of(shard, shard.table)
            waits = list(moment.waits)
            if moment.branch is not None:
                waits.append(self._alive(shard, moment.branch))
            call = self._nodes.writer("catch_up", shard.device).call(
                "all",
                found.op("GroupEmbeddingCatchUpAll"),
                waits_for=waits,
                table_names=[shard.table],
                **found.inputs,
                **found.attributes,
            )
            self._all[key] = call.name
        return self._all[key]

    def some_rows(
        self, shard: DeferredVariable, variable: str, ids: TensorRef, waits: Tuple[str, ...]
    ) -> str:
        """A node that catches up these rows of a variable of the table after other nodes."""
        read = variable if variable == shard.average else shard.table
        key = (read, ids, waits)
        if key not in self._rows:
            writer = self._nodes.writer("catch_up", shard.device)
            found = self._of(shard, read)
            flat = writer.call(
                "flat",
                "Reshape",
                tensor=ids,
                shape=writer.constant("shape", np.array([-1], np.int32)),
            ).result
            nothing = writer.constant("empty", np.zeros([0], np.int64))
            call = writer.call(
                "rows",
                found.op("GroupEmbeddingCatchUp"),
                waits_for=waits,
                ids=[flat],
                positions=[nothing],
                shapes=[nothing],
                weights=[],
                lookup_tables=[0],
                table_shards=[1],
                table_names=[shard.table],
                combiners=["sum"],
                layouts=["dense"],
                weighted=[False],
                default_ids=[-1],
                safe=True,
                **found.inputs,
                **found.attributes_of_rows,
            )
            self._rows[key] = call.name
        return self._rows[key]

    def rows_of_group_op(self, name: str) -> List[str]:
        """Nodes that catch up the rows that an op of graph_opt's reads."""
        view = self._view
        count = count_tables(view, name)
        reads = [find_read(view, tensor) for tensor in view.inputs(name)[:count]]
        shards = [read.variable for read in reads if read is not None]
        served = _served(view, name, shards)
        kind = "GroupEmbeddingCatchUp{}".format(GROUP_READERS[view.op(name)])
        given = inputs_by_name(view, name)
        del given["tables"]
        made = []
        for need in needs_of(shards, self._deferred):
            found = ShardInputs(shards, self._deferred, need, served)
            op = found.op(kind)
            attributes = {**attributes_of(op, view.nodes[name]), **found.attributes_of_rows}
            writer = self._nodes.writer("catch_up", view.device(name))
            call = writer.call("rows", op, **{**found.inputs, **given, **attributes})
            made.append(call.name)
        return made

    def _of(self, shard: DeferredVariable, read: str) -> ShardInputs:
        """The inputs of an op for readers of the table, or its average."""
        need = Need(shard.optimizer, bool(shard.average), read == shard.average)
        return ShardInputs([read], self._deferred, need)

    def value(self, variable: str, source: str) -> str:
        """A node that returns a variable's value after node `source`."""
        key = (variable, source)
        if key not in self._values:
            writer = self._nodes.writer("value", self._view.device(variable))
            at = {"_class": ["loc:@" + variable]}
            name = self._identity(writer, TensorRef(variable, 0), [source], **at)
            self._values[key] = name
        return self._values[key]

    def _alive(self, shard: DeferredVariable, branch: TensorRef) -> str:
        """A node that runs if the branch of a tf.cond does: a Switch itself always does."""
        if branch not in self._branches:
            writer = self._nodes.writer("branch", shard.device)
            self._branches[branch] = self._identity(writer, branch)
        return self._branches[branch]

    def _identity(
        self,
        writer: NodeWriter,
        tensor: TensorRef,
        waits_for: Sequence[str] = (),
        **attributes: Any,
    ) -> str:
        call = writer.call(
            "read",
            "Identity",
            waits_for=waits_for,
            output_shapes=[self._view.shape(tensor)],
            input=tensor,
            **attributes,
        )
        return call.name


def _served(view: GraphView, name: str, shards: Sequence[str]) -> Optional[AbstractSet[int]]:
    """The places of shards with rows on this rank; the first one of a variable that has none."""
    if view.op(name) not in EXCHANGE_GATHERS:
        return None
    served = view.attribute(name, "served")
    return set(places_of_variables(shards, [] if served is None else list(served.list.i)))
