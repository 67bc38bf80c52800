"""Tables that a script has whole on every rank and of which its sessions keep a part."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Any, Dict, Iterator, Optional

from graph_opt.config.options import Ranks, SessionOptions
from graph_opt.passes.shard_tables.divided_variables import DividedVariable
from graph_opt.passes.translation import Translation
from graph_opt.sharding.guard import guard_graph
from graph_opt.sharding.keyed_rows import DividedRows
from graph_opt.sharding.table_savers import save_whole_tables
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import (
    HOROVOD,
    reach_ranks,
    transport_if_chosen,
    transport_in_use,
)

_HOROVOD = "horovod.tensorflow"
_ELASTIC = "HOROVOD_ELASTIC"  # Set by Horovod's launcher in ranks that may come and go.


def with_ranks(options: SessionOptions) -> SessionOptions:
    """The options with the ranks of this process, if tables are to be divided among them."""
    if options.shard_tables is None or options.ranks is not None:
        return options
    transport = _transport()
    if transport is None:
        return options
    elastic = os.environ.get(_ELASTIC, "0") != "0"
    ranks = Ranks(transport.rank, transport.size, transport.group_name, elastic)
    return dataclasses.replace(options, ranks=ranks)


def note_divided(graph: Any, translation: Translation) -> None:
    """Makes known which variables of a graph are divided, for what saves, restores and broadcasts.

    Args:
      graph: A live graph that was rewritten.
      translation: What its names stand for.
    """
    if translation.divided is None:
        return
    transport = transport_in_use()
    divided: Dict[str, DividedVariable] = {one.name: one for one in translation.divided.variables}
    for variable in _variables(graph):
        found = divided.get(variable.op.name)
        if found is not None:
            variable.keyed_rows = DividedRows(found.name, variable, found.rows, found.rank)
    with graph.as_default():
        guard_graph(transport)
    save_whole_tables(graph, transport)


def _transport() -> Optional[Transport]:
    """How the ranks of this process reach each other; None if there is no Horovod that runs."""
    chosen = transport_if_chosen()
    if chosen is not None:
        return chosen
    horovod = sys.modules.get(_HOROVOD)
    if horovod is None or not horovod.is_initialized():
        return None
    return reach_ranks(HOROVOD)


def _variables(graph: Any) -> Iterator[Any]:
    """All variables in collections of a graph, each once."""
    seen = set()
    for key in graph.get_all_collection_keys():
        for item in graph.get_collection_ref(key):
            if hasattr(item, "initializer") and hasattr(item, "op") and id(item) not in seen:
                seen.add(id(item))
                yield item
