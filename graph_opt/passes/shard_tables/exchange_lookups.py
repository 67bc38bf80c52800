"""Replaces the lookups of sharded tables by exchanges, and what Horovod gathers by their gradients.

    before   ids -> lookup -> rows          slices of this rank -> HorovodAllgather -> update
    after    ids -> exchange -> rows        gradients of rows -> exchange ------------> update

The update then takes the rows of this rank, summed over all ranks.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, NamedTuple, Sequence, Set

from graph_opt.compat import tf
from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.rewrite import OUTPUT_SHAPES, Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.dead_nodes import dead_nodes
from graph_opt.passes.fusion.group_nodes import GroupNodes
from graph_opt.passes.node_writer import free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.prefetch.regions import staying_lookups
from graph_opt.passes.shard_tables.exchange_groups import (
    Entry,
    Exchange,
    ExchangedTable,
    exchanges,
)
from graph_opt.passes.shard_tables.exchange_nodes import (
    ExchangeNodes,
    TablePart,
    as_dtype,
    joined_slices,
)
from graph_opt.passes.shard_tables.exchangeable import require_exchangeable
from graph_opt.passes.shard_tables.messages import Messages
from graph_opt.passes.shard_tables.sharded_table import ShardedTable
from graph_opt.passes.unused_gradients import unused_gradients
from graph_opt.rules.gradients.rows import Slices

_SCOPE = "shard_tables"
_MESSAGE = "graph_opt_tables"


def exchange_lookups(
    state: PassState,
    tables: Sequence[ShardedTable],
    messages: Messages,
    options: SessionOptions,
) -> PassState:
    """Replaces the lookups of some tables, and the gradients that are gathered of them.

    The graph then reads these variables as if they had this rank's rows only.

    Args:
      state: The graph, after `fold_conditionals`.
      tables: The tables; `require_exchangeable` has accepted each.
      messages: Writes the messages; knows the rank.
      options: The session's options.

    Raises:
      TableRefusal: Rows of a table cannot be exchanged beside those of the others.
    """
    view = state.view
    found = [
        ExchangedTable(require_exchangeable(view, one.table, one.lookups, one.update), one.rows)
        for one in tables
    ]
    lookups = [lookup for one in tables for lookup in one.lookups]
    staying = staying_lookups(view, lookups, options.async_embedding)
    writing = _Writing(view, found, messages)
    rewritten = state.rewritten(writing.rewrite(exchanges(view, found, staying)))
    forced = unused_gradients(rewritten.view).nodes
    dead = dead_nodes(rewritten.view, writing.replaced.union(forced))
    name_map = rewritten.name_map
    return dataclasses.replace(
        rewritten,
        name_map=dataclasses.replace(
            name_map, substitutes={**name_map.substitutes, **writing.substitutes}
        ),
    ).without(dead)


class _Gathered(NamedTuple):
    """One result of a collective, and what replaces it."""

    tensor: TensorRef
    made: TensorRef


class _Writing:
    """The rewrite of one graph."""

    def __init__(
        self, view: GraphView, tables: Sequence[ExchangedTable], messages: Messages
    ) -> None:
        self._view = view
        self._tables = tables
        self._messages = messages
        self._nodes = GroupNodes(view, free_scope(view, _SCOPE))
        self._edits = Edits(view)
        self._slices: Dict[Entry, List[Slices]] = {}
        self.replaced: Set[str] = set()
        self.substitutes: Dict[str, str] = {}

    def rewrite(self, groups: Sequence[Exchange]) -> Rewrite:
        """The rewrite with these exchanges."""
        names = _message_names(self._view, len(groups))
        for exchange, name in zip(groups, names):
            self._write(exchange, name)
        self._replace_gathered()
        self._edits.apply_to_new(self._nodes.nodes)
        return self._edits.rewrite(self._nodes.nodes)

    def _write(self, exchange: Exchange, name: str) -> None:
        sharded = {one.name: TablePart(one.exchangeable.table, one.rows) for one in self._tables}
        device = self._view.device(exchange.lookups[0].member.candidate.lookup.output.node)
        nodes = ExchangeNodes(self._nodes, exchange, sharded, self._messages, name, device)
        forward = nodes.write_lookup()
        writer = self._nodes.writer("result", device)
        for lookup, pooled in zip(exchange.lookups, forward.combine.outputs("pooled")):
            replaced = lookup.member.candidate.lookup
            if replaced.gathers:
                result = self._nodes.restored(writer, lookup.member, pooled)
                self.substitutes[str(replaced.output)] = str(result.ref)
                self._edits.replace(replaced.output, result)
                self._edits.replace_waits(replaced.output.node, forward.combine.name)
                self.replaced.update(replaced.nodes)
        if any(exchange.trains(entry) for entry in exchange.entries):
            for entry, slices in nodes.write_gradients(forward).items():
                self._slices.setdefault(entry, []).append(slices)

    def _replace_gathered(self) -> None:
        """Gives updates the gradients of exchanges in place of what was gathered."""
        made: List[_Gathered] = []
        for table in self._tables:
            described = table.exchangeable.table
            for number, part in enumerate(table.exchangeable.parts):
                writer = self._nodes.writer("gradient", described.device)
                width = int((described.shape or (0, 0))[1] or 0)
                parts = self._slices[Entry(table.name, number)]
                joined = joined_slices(writer, parts, described.dtype, width)
                wanted = self._view.dtype(part.sent.slices.indices)
                indices = as_dtype(writer, joined.indices, wanted)
                values_gathered, indices_gathered = part.sent.gathered
                made += [
                    _Gathered(values_gathered, joined.values),
                    _Gathered(indices_gathered, indices),
                ]
                self.replaced.update(part.nodes)
                for member in part.members:
                    self.replaced.update(member.gradient.nodes if member.gradient else ())
        for one in made:
            self._edits.replace(one.tensor, one.made.input_name)
            self._edits.replace_waits(one.tensor.node, one.made.node)
            self.replaced.add(one.tensor.node)
        self._gather_rest([one.tensor for one in made])

    def _gather_rest(self, replaced: Sequence[TensorRef]) -> None:
        """Gathers what is left of a group of which only some tensors are still needed."""
        for name in dict.fromkeys(tensor.node for tensor in replaced):
            inputs = self._view.inputs(name)
            left = [i for i in range(len(inputs)) if TensorRef(name, i) not in replaced]
            if not left:
                continue
            attributes = dict(self._view.nodes[name].attr)
            attributes.pop(OUTPUT_SHAPES, None)
            attributes["num_tensors"] = tf.AttrValue(i=len(left))
            # Not a call: a process that only plans may lack Horovod's library.
            node = self._nodes.writer("rest", self._view.device(name)).node(
                name.rpartition("/")[2],
                self._view.op(name),
                [inputs[i].input_name for i in left],
                **attributes,
            )
            for place, index in enumerate(left):
                made = TensorRef(node.name, place).input_name
                self._edits.replace(TensorRef(name, index), made)


def _message_names(view: GraphView, count: int) -> List[str]:
    """Names that no message of the graph starts with; the same on all ranks."""
    taken = {name.rpartition("/")[2] for name in view.nodes}
    names: List[str] = []
    number = 0
    while len(names) < count:
        name = "{}_{}".format(_MESSAGE, number)
        number += 1
        if not any(one.startswith(name + "_") for one in taken):
            names.append(name)
    return names
