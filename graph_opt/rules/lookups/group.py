"""Lookups by graph_opt's own ops, whether a model or the fusing pass wrote them.

    tables, ids .. -> (Resource)GroupEmbeddingLookup:i                        one output per lookup

    ids .. -> GroupEmbeddingPrepare -> (Resource)GroupEmbeddingGather(tables) one for each server
           -> GroupEmbeddingCombine(rows of all servers, Prepare's other outputs):i

    ids .. -> GroupEmbeddingPrepare -> all-to-all -> (Resource)ExchangeGather(this rank's parts)
           -> all-to-all -> ExchangeCombine(rows of all ranks, Prepare's other outputs):i

If the node has `columns`, all lookups share its only output.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import lookup as apis
from graph_opt.rules.lookup import Lookup, Table, name_of_combiner
from graph_opt.rules.match.forward import ForwardPart
from graph_opt.rules.match.table import count_tables, require_table
from graph_opt.rules.op_names import (
    EXCHANGE_COMBINE,
    EXCHANGE_GATHERS,
    GROUP_COMBINE,
    GROUP_GATHERS,
    GROUP_LOOKUPS,
    GROUP_PREPARE,
    STAGE_SERVED,
)

STARTS = GROUP_LOOKUPS | {GROUP_COMBINE, EXCHANGE_COMBINE}
# Between two ops of an exchange are the message and what packs it.
_LONGEST_MESSAGE = 16
_SPARSE = "sparse"


class _Attributes(NamedTuple):
    """The attributes of a node that describe its lookups: L lookups in T tables.

    Attributes:
      lookup_tables: [L].
      table_shards: [T].
      combiners: [L].
      weighted: [L].
      strategies: [T]. `mod` or `div`.
      layouts: [L].
      default_ids: [L].
      has_columns: Whether all lookups share one output.
      safe: Whether ids below 0 are dropped.
    """

    lookup_tables: List[int]
    table_shards: List[int]
    combiners: List[str]
    weighted: List[bool]
    strategies: List[str]
    layouts: List[str]
    default_ids: List[int]
    has_columns: bool
    safe: bool


class _Group(NamedTuple):
    """What all lookups of a node share.

    Attributes:
      output: The node that returns the results.
      nodes: All nodes.
      gathers: The nodes that read the tables.
      shards: What they read; the shards of a table are consecutive.
      ids: Inputs of the group, starting with the ids of each lookup.
      attributes: How each table is looked up.
      api: The public function.
    """

    output: str
    nodes: Tuple[str, ...]
    gathers: Tuple[str, ...]
    shards: Tuple[Table, ...]
    ids: Tuple[TensorRef, ...]
    attributes: _Attributes
    api: str = apis.GROUP_EMBEDDING_LOOKUP_SPARSE


def start(view: GraphView, forward: ForwardPart, name: str) -> List[Lookup]:
    """The lookups whose results node `name`, of an op in `STARTS`, returns.

    Raises:
      Refusal: dense_variable_upstream, and those of `table.require_table`.
    """
    group = _READERS.get(view.op(name), _whole)(view, name)
    if group is None or not _is_consistent(group):
        return []
    _require_no_variable(forward, group)
    places = range(len(group.attributes.lookup_tables))
    if group.attributes.has_columns:
        return [_lookup(group, 0, places)]
    return [_lookup(group, place, [place]) for place in places]


def _whole(view: GraphView, name: str) -> Optional[_Group]:
    """The group of a single node that does everything."""
    inputs = view.inputs(name)
    count = count_tables(view, name)
    shards = _tables(view, name, inputs[:count])
    if shards is None:
        return None
    return _Group(name, (name,), (name,), shards, inputs[count:], _attributes(view, name))


def _packed(view: GraphView, name: str) -> Optional[_Group]:
    """The group whose rows are gathered by servers."""
    sources = [view.through_identity(tensor).node for tensor in view.inputs(name)]
    gathers = tuple(dict.fromkeys(s for s in sources if view.op(s) in GROUP_GATHERS))
    prepares = list(dict.fromkeys(s for s in sources if view.op(s) == GROUP_PREPARE))
    requests = [view.through_identity(view.inputs(gather)[-1]) for gather in gathers]
    noted = tuple(dict.fromkeys(r.node for r in requests if view.op(r.node) == STAGE_SERVED))
    if noted:
        requests = [view.through_identity(view.inputs(r.node)[r.index]) for r in requests]
    if len(prepares) != 1 or {request.node for request in requests} != set(prepares):
        return None
    prepare = prepares[0]
    by_server = [_tables(view, gather, view.inputs(gather)[:-1]) for gather in gathers]
    shards = _in_order(_integers(view, prepare, "shard_servers"), by_server)
    if shards is None:
        return None
    nodes = (prepare, *noted, *gathers, name)
    attributes = _attributes(view, prepare)
    return _Group(name, nodes, gathers, shards, view.inputs(prepare), attributes)


def _exchanged(view: GraphView, name: str) -> Optional[_Group]:
    """The group whose rows ranks send each other: of each table, the part that this rank has."""
    back = _message(view, view.inputs(name)[0], EXCHANGE_GATHERS)
    if back is None:
        return None
    gather = back[-1]
    requests = view.inputs(gather)[count_tables(view, gather)]
    out = _message(view, requests, frozenset([GROUP_PREPARE]))
    shards = _tables(view, gather, view.inputs(gather)[: count_tables(view, gather)])
    if out is None or shards is None:
        return None
    prepare = out[-1]
    attributes = _attributes(view, prepare)
    attributes = attributes._replace(table_shards=[1] * len(attributes.table_shards))
    nodes = tuple(dict.fromkeys([*reversed(out), *reversed(back), name]))
    inputs = view.inputs(prepare)
    return _Group(name, nodes, (gather,), shards, inputs, attributes, apis.EXCHANGED_LOOKUP)


def _message(
    view: GraphView, received: TensorRef, senders: FrozenSet[str]
) -> Optional[Tuple[str, ...]]:
    """The nodes between what a rank receives and the nearest op of its own that sends; that last.

    A message and its gradient are alike on all ranks, so this op is what the other ranks sent with.
    """
    nodes: Dict[str, None] = {}
    waiting = [received.node]
    for _ in range(_LONGEST_MESSAGE):
        level, waiting = waiting, []
        for node in level:
            if view.op(node) in senders:
                nodes.pop(node, None)
                return (*nodes, node)
            nodes[node] = None
            waiting += [tensor.node for tensor in view.inputs(node) if tensor.node not in nodes]
    return None


def _in_order(
    servers: Sequence[int], tables: Sequence[Optional[Sequence[Table]]]
) -> Optional[Tuple[Table, ...]]:
    """The shards of a group, merged from those of each server, which are in the group's order."""
    counts = [servers.count(number) for number in range(len(tables))]
    if counts != [len(own or ()) for own in tables] or sum(counts) != len(servers):
        return None
    left = [iter(own or ()) for own in tables]
    return tuple(next(left[server]) for server in servers)


def _tables(
    view: GraphView, reader: str, tensors: Sequence[TensorRef]
) -> Optional[Tuple[Table, ...]]:
    """The variables that these inputs read, or None if one of them is not a variable."""
    tables = [require_table(view, reader, tensor) for tensor in tensors]
    found = tuple(table for table in tables if table is not None)
    return found if found and len(found) == len(tables) else None


def _is_consistent(group: _Group) -> bool:
    attributes = group.attributes
    lookups, tables = len(attributes.lookup_tables), len(attributes.table_shards)
    lengths = {len(attributes.combiners), len(attributes.weighted)}
    return (
        lengths == {lookups}
        and len(group.ids) >= lookups
        and sum(attributes.table_shards) == len(group.shards)
        and len(attributes.strategies) == tables
        and all(0 <= table < tables for table in attributes.lookup_tables)
    )


def _require_no_variable(forward: ForwardPart, group: _Group) -> None:
    for tensor in group.ids:
        if forward.depends_on_dense_variable(tensor.node):
            raise Refusal(
                "dense_variable_upstream",
                at=group.output,
                need="ids and weights that come only from the input",
                saw="{}, computed from a whole variable".format(tensor),
            )


def _lookup(group: _Group, output: int, places: Sequence[int]) -> Lookup:
    """Lookups number `places` of a group, which share one output, as one lookup."""
    attributes = group.attributes
    given = _arguments(group, output)
    tables = _tables_of(group, sorted({attributes.lookup_tables[place] for place in places}))
    combiners = {attributes.combiners[place] for place in places}
    strategies = {
        attributes.strategies[attributes.lookup_tables[place]]
        for place in places
        if attributes.table_shards[attributes.lookup_tables[place]] > 1
    }
    return Lookup(
        api=group.api,
        tables=tables,
        ids=tuple(group.ids[place] for place in places),
        output=TensorRef(group.output, output),
        gathers=group.gathers,
        nodes=group.nodes,
        combiner=combiners.pop() if len(combiners) == 1 else None,
        weighted=any(attributes.weighted[place] for place in places),
        partition_strategy=strategies.pop() if len(strategies) == 1 else None,
        given=given,
        default_id=attributes.default_ids[output] if given else -1,
        drops_invalid=attributes.safe,
    )


def _arguments(group: _Group, place: int) -> Dict[str, TensorRef]:
    """The arguments of lookup number `place`, if another op could do all of the group's as well.

    That op would have to return the same gradients: one for each lookup.
    """
    attributes = group.attributes
    count = len(attributes.lookup_tables)
    alone = group.gathers == (group.output,) and len(set(attributes.lookup_tables)) == count
    of_keys = any(table.is_dynamic for table in group.shards)
    if not alone or of_keys or set(attributes.layouts) != {_SPARSE}:
        return {}
    given = {
        "ids": group.ids[place],
        "indices": group.ids[count + place],
        "dense_shape": group.ids[2 * count + place],
    }
    if attributes.weighted[place]:
        given["weights"] = group.ids[3 * count + sum(attributes.weighted[:place])]
    return given


def _tables_of(group: _Group, numbers: Sequence[int]) -> Tuple[Table, ...]:
    """The shards of these tables, each with its table's number of partitions."""
    counts = group.attributes.table_shards
    tables: List[Table] = []
    for number in numbers:
        first = sum(counts[:number])
        for shard in group.shards[first : first + counts[number]]:
            tables.append(dataclasses.replace(shard, partitions=counts[number]))
    return tuple(tables)


def _attributes(view: GraphView, name: str) -> _Attributes:
    weighted = view.attribute(name, "weighted")
    safe = view.attribute(name, "safe")
    table_shards = _integers(view, name, "table_shards")
    return _Attributes(
        lookup_tables=_integers(view, name, "lookup_tables"),
        table_shards=table_shards,
        combiners=list(map(name_of_combiner, _texts(view, name, "combiners"))),
        weighted=[] if weighted is None else list(weighted.list.b),
        strategies=_strategies(view, name, len(table_shards)),
        layouts=_texts(view, name, "layouts"),
        default_ids=_integers(view, name, "default_ids"),
        has_columns=bool(_integers(view, name, "columns")),
        safe=bool(safe and safe.b),
    )


def _strategies(view: GraphView, name: str, tables: int) -> List[str]:
    return _texts(view, name, "partition_strategies") or ["mod"] * tables


def _texts(view: GraphView, name: str, key: str) -> List[str]:
    value = view.attribute(name, key)
    return [] if value is None else [text.decode() for text in value.list.s]


def _integers(view: GraphView, name: str, key: str) -> List[int]:
    value = view.attribute(name, key)
    return [] if value is None else [int(number) for number in value.list.i]


_READERS = {GROUP_COMBINE: _packed, EXCHANGE_COMBINE: _exchanged}
