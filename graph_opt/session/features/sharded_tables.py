"""Tables that a script has whole on every rank and of which its sessions keep a part.

What is fetched of one is whole, and so is what is fed, loaded, saved and restored.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import AbstractSet, Any, Dict, Iterator, List, Mapping, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.config.options import Ranks, SessionOptions
from graph_opt.graph.view import GraphView
from graph_opt.passes.shard_tables.shard_variables import shard_late_nodes
from graph_opt.passes.shard_tables.sharded_variables import ShardedVariable, ShardedVariables
from graph_opt.session.features.feature import Feature, Late, Watched
from graph_opt.session.graph_records import name_map_of
from graph_opt.sharding.equal_updates import note_update
from graph_opt.sharding.guard import guard_graph
from graph_opt.sharding.keyed_rows import ShardedRows
from graph_opt.sharding.table_savers import save_whole_tables, whole_value
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import (
    HOROVOD,
    reach_ranks,
    transport_if_chosen,
    transport_in_use,
)

_HOROVOD = "horovod.tensorflow"
_ELASTIC = "HOROVOD_ELASTIC"  # Set by Horovod's launcher in ranks that may come and go.
_NOT_FED = (
    "ranks have different rows of this variable, and do not read this tensor. Load a whole value "
    "with Variable.load"
)
_NOT_WHOLE = (
    "cannot feed '{}' with shape {}: need the whole variable '{}', of shape {}, of which each rank "
    "takes its rows"
)
_NOT_COMPILED = (
    "cannot fetch '{}' in a compiled or partial step: the variable '{}' is sharded across {} "
    "ranks, and this one has {} of its {} rows. Fetch it with session.run, which gets the rows of "
    "all ranks"
)


def with_ranks(options: SessionOptions) -> SessionOptions:
    """The options with the ranks of this process, if Horovod connects it with others."""
    if options.ranks is not None:
        return options
    elastic = os.environ.get(_ELASTIC, "0") != "0"
    transport = transport_if_chosen() if options.shard_tables is None else _transport()
    horovod = _running_horovod()
    if transport is not None:
        ranks = Ranks(transport.rank, transport.size, transport.group_name, elastic)
    elif horovod is not None:
        ranks = Ranks(horovod.rank(), horovod.size(), "", elastic)
    else:
        return options
    return dataclasses.replace(options, ranks=ranks)


class ShardedTables(Feature):
    """See `Feature`."""

    part_type = ShardedVariables
    not_shadowed = "tables are sharded across ranks"

    def __init__(self, graph: Any, part: ShardedVariables) -> None:
        super().__init__(graph, part)
        self._part = part

    @classmethod
    def graph_rewritten(cls, graph: Any, part: ShardedVariables) -> None:
        """Tells what saves, restores and broadcasts which variables of a graph are sharded."""
        _note_sharded(graph, part)

    @classmethod
    def watched(cls, part: ShardedVariables) -> Watched:
        """See `Feature`."""
        return Watched(frozenset(variable.name for variable in part.variables), part.values)

    @classmethod
    def rewrite_late(cls, view: GraphView, part: ShardedVariables, new: AbstractSet[str]) -> Late:
        """See `Feature`: of what is assigned, this rank's rows are."""
        grown = shard_late_nodes(view, part, new)
        return Late(grown.rewrite, grown.variables)

    def in_main(self, name: str) -> Optional[str]:
        """See `Feature`."""
        if name in self._part.assigned:
            return self._part.assigned[name]
        if name in self._part.values:
            return self._part.named(self._part.values[name]).keys + "/start:0"
        return None

    def refusal_of_feed(self, name: str) -> str:
        """See `Feature`."""
        return _NOT_FED if name in self._part.unread or name in self._part.values else ""

    def fed_value(self, tensor: Any, value: Any) -> Any:
        """See `Feature`: this rank's rows of what is fed for a variable.

        Raises:
          tf.errors.InvalidArgumentError: It is not the whole variable.
        """
        name = self._part.fed.get(tensor.name)
        if name is None:
            return value
        variable = self._part.named(name)
        whole = np.asarray(value)
        if whole.shape != variable.shape:
            shapes = list(whole.shape), name, list(variable.shape)
            text = _NOT_WHOLE.format(tensor.name, *shapes)
            raise tf.errors.InvalidArgumentError(None, tensor.op, text)
        return whole[variable.rows.keys(variable.rank)]

    def acting(self, fetches: Sequence[Any]) -> List[Any]:
        """See `Feature`."""
        values = self._part.values
        return [tensor.op for tensor in fetches if tensor.name in values]

    def refuse_compiled(self, fetches: Sequence[Any]) -> None:
        """See `Feature`: such a step cannot ask other ranks for rows."""
        for place, name in self._among(fetches).items():
            tensor, variable = fetches[place], self._part.named(name)
            ranks, rows = variable.rows.num_ranks, (variable.local_rows, variable.shape[0])
            text = _NOT_COMPILED.format(tensor.name, name, ranks, *rows)
            raise tf.errors.InvalidArgumentError(None, tensor.op, text)

    def results(self, session: Any, fetches: Sequence[Any], values: List[Any]) -> List[Any]:
        """See `Feature`: whole variables in the place of parts."""
        sharded = self._among(fetches)
        whole = {name: whole_value(session, name) for name in set(sharded.values())}
        return [whole.get(sharded.get(place, ""), value) for place, value in enumerate(values)]

    def _among(self, fetches: Sequence[Any]) -> Dict[int, str]:
        """Which of these have a part of a variable: their places, and its name."""
        values, assigned = self._part.values, self._part.assigned
        names = {place: tensor.name for place, tensor in enumerate(fetches)}
        return {
            place: values[name]
            for place, name in names.items()
            if name in values and name not in assigned
        }


def _note_sharded(graph: Any, part: ShardedVariables) -> None:
    transport = transport_in_use()
    sharded: Dict[str, ShardedVariable] = {one.name: one for one in part.variables}
    for variable in _variables(graph):
        found = sharded.get(variable.op.name)
        if found is not None:
            variable.keyed_rows = ShardedRows(found.name, variable, found.rows, found.rank)
    for op_type in {operation.type for operation in graph.get_operations()}:
        note_update(op_type)
    with graph.as_default():
        guard_graph(transport)
    save_whole_tables(graph, transport)


def sharded_values(graph: Any) -> Mapping[str, str]:
    """The names of sharded variables, by the tensors with the part that this rank has."""
    part = name_map_of(graph).part(ShardedVariables)
    return {} if part is None else part.values


def _transport() -> Optional[Transport]:
    """How the ranks of this process reach each other; None if there is no Horovod that runs."""
    chosen = transport_if_chosen()
    if chosen is not None or _running_horovod() is None:
        return chosen
    return reach_ranks(HOROVOD)


def _running_horovod() -> Optional[Any]:
    """The module `horovod.tensorflow`, if the script has initialized it."""
    horovod = sys.modules.get(_HOROVOD)
    return horovod if horovod is not None and horovod.is_initialized() else None


def _variables(graph: Any) -> Iterator[Any]:
    """All variables in collections of a graph, each once."""
    seen = set()
    for key in graph.get_all_collection_keys():
        for item in graph.get_collection_ref(key):
            if hasattr(item, "initializer") and hasattr(item, "op") and id(item) not in seen:
                seen.add(id(item))
                yield item
