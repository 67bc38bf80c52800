"""Finds the lookups of a graph: from what reads a table to the largest pattern around it.

    gather ──> Identity ──> SparseSegmentMean ──> Select ──> Reshape
    start                   a lookup without      a candidate for each pattern, furthest first:
                            what is behind it     the first that fits is the lookup

Rows pass through few kinds of ops on their way (`op_names.ROW_INPUTS`); each node on that way may
be the last of a pattern. Patterns are read from there back to what the public function was given.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import lookup as words
from graph_opt.rules.lookup import Lookup, LookupSearch
from graph_opt.rules.lookups import gather, group
from graph_opt.rules.lookups.embedding_lookup import CLIPPED, SHARDED
from graph_opt.rules.lookups.embedding_lookup_sparse import SPARSE
from graph_opt.rules.lookups.functions import refuse_lookups_in_functions
from graph_opt.rules.lookups.marked import find_marked
from graph_opt.rules.lookups.safe_lookup_sparse import NO_DEFAULT, SAFE
from graph_opt.rules.lookups.scattered import SCATTERED
from graph_opt.rules.match.forward import ForwardPart
from graph_opt.rules.match.matcher import Reading
from graph_opt.rules.match.pattern import Pattern
from graph_opt.rules.op_names import COMBINERS, ROW_INPUTS, STITCHES, UNIQUES

# The longest way has some 15 nodes; gradients read rows by the same ops.
_LONGEST_WAY = 24
_MOST_CANDIDATES = 200


class Declared(NamedTuple):
    """One API.

    Attributes:
      api: Its public name.
      pattern: Its graph, read from the result.
      marks: Op types of which a node within the pattern shows that this API was meant, even where
        the rest differs.
      reason: Why it stands at this place.
    """

    api: str
    pattern: Pattern
    marks: FrozenSet[str]
    reason: str

    def is_meant(self, reading: Reading) -> bool:
        """Whether a reading that failed came so far that its reason is worth telling."""
        return not self.marks.isdisjoint(reading.reached_ops)


DECLARED = (
    Declared(
        words.SAFE_EMBEDDING_LOOKUP_SPARSE,
        SAFE,
        frozenset(["SparseFillEmptyRows"]),
        "first: it holds a sparse lookup",
    ),
    Declared(words.EMBEDDING_LOOKUP_SPARSE, SPARSE, UNIQUES, "holds a lookup of rows"),
    Declared(
        words.SCATTERED_EMBEDDING_LOOKUP_SPARSE,
        SCATTERED,
        frozenset(),
        "holds one too, of places that no sparse lookup has",
    ),
    Declared(
        words.EMBEDDING_LOOKUP,
        SHARDED,
        frozenset(["DynamicPartition"]),
        "holds the gathers of all shards, clipped or not",
    ),
    Declared(words.EMBEDDING_LOOKUP, CLIPPED, frozenset(), "holds a gather"),
)
_BY_LAST_OP: Dict[str, List[Declared]] = {}
for _declared in DECLARED:
    assert _declared.pattern.ops is not None, "any op may end the pattern"
    for _op in _declared.pattern.ops:
        _BY_LAST_OP.setdefault(_op, []).append(_declared)


def find_lookups(view: GraphView) -> LookupSearch:
    """Every embedding lookup of the forward part of a graph, each once, in linear time.

    Where the inside of a pattern is read elsewhere in the forward part, or differs from what the
    public function writes, the lookup ends before that pattern: at worst at the gather itself.

    Args:
      view: The graph, training part included or not.

    Returns:
      The lookups in graph order, marked tensors last, and the refusals: tables read inside of
      control flow or functions, and reads that no pass may touch.

    Example:
      >>> search = find_lookups(GraphView(graph.as_graph_def()))
      >>> [(lookup.api, str(lookup.output)) for lookup in search.lookups]
      [('tf.nn.embedding_lookup', 'embedding_lookup/Identity:0')]
    """
    forward = ForwardPart(view)
    lookups: List[Lookup] = []
    refusals: List[Refusal] = []
    claimed: Set[str] = set()
    for name in _starts(view):
        if name in claimed:
            continue
        try:
            found = _found(view, forward, name)
        except Refusal as refusal:
            if forward.feeds_model(name):
                refusals.append(refusal)
            continue
        if found and forward.feeds_model(name):
            claimed.update(reader for lookup in found for reader in lookup.gathers)
            lookups.extend(found)
    marked = find_marked(view, {lookup.output for lookup in lookups})
    refusals.extend(refuse_lookups_in_functions(view, forward))
    refusals.extend(marked.refusals)
    return LookupSearch(tuple(lookups) + marked.lookups, tuple(refusals))


def _starts(view: GraphView) -> List[str]:
    """Every node that may read rows of a table, in graph order."""
    ops = gather.STARTS | group.STARTS | frozenset(COMBINERS)
    found: Dict[str, None] = dict.fromkeys(view.of_op(*sorted(ops)))
    return [name for name in view.nodes if name in found]


def _found(view: GraphView, forward: ForwardPart, name: str) -> List[Lookup]:
    """The lookups of which a node reads the table."""
    if view.op(name) in group.STARTS:
        lookups = group.start(view, forward, name)
    else:
        started = gather.start(view, name)
        lookups = [] if started is None else [_largest(view, forward, started)]
    return [dataclasses.replace(lookup, name=_label(lookup)) for lookup in lookups]


def _largest(view: GraphView, forward: ForwardPart, started: Lookup) -> Lookup:
    """The largest lookup around a read of a table's rows."""
    larger: Optional[Reading] = None
    found: Optional[Lookup] = None
    for candidate in _candidates(view, started.output):
        for declared in _BY_LAST_OP.get(view.op(candidate), ()):
            reading = Reading(view)
            if not declared.pattern.match(reading, TensorRef(candidate, 0)):
                if declared.is_meant(reading) and (not larger or reading.steps > larger.steps):
                    larger = reading
            elif found is None and _is_apart(forward, reading, started, candidate):
                found = _described(declared.api, reading, candidate)
        if found is not None:
            break
    lookup = found or started
    if lookup.combiner is None and lookup.partition_strategy is None:
        lookup = gather.with_identities(view, forward, lookup)
    return dataclasses.replace(lookup, larger=larger.refusal() if larger else None)


def _candidates(view: GraphView, rows: TensorRef) -> List[str]:
    """Nodes that a table's rows reach by ops of lookups, the furthest first."""
    distances: Dict[str, int] = {rows.node: 0}
    waiting = [rows.node]
    for name in waiting:
        if distances[name] == _LONGEST_WAY or len(distances) > _MOST_CANDIDATES:
            break
        for use in view.uses(TensorRef(name, 0)):
            if use.consumer not in distances and _takes_rows(view, use.consumer, use.slot):
                distances[use.consumer] = distances[name] + 1
                waiting.append(use.consumer)
    return sorted(distances, key=lambda name: -distances[name])


def _takes_rows(view: GraphView, name: str, slot: int) -> bool:
    op = view.op(name)
    return ROW_INPUTS.get(op) == slot or op in STITCHES


def _is_apart(forward: ForwardPart, reading: Reading, started: Lookup, last: str) -> bool:
    """Whether nothing else of the model reads rows on their way, or computes their weights."""
    if started.output.node not in reading.tables:
        return False
    weights = reading.tensors.get("weights")
    if weights is not None and forward.depends_on_dense_variable(weights.node):
        return False
    inner: Dict[str, None] = {name: None for name in reading.tables if name != last}
    waiting = list(inner)
    while waiting:
        name = waiting.pop()
        rows = TensorRef(name, 0)
        if not forward.stays_inside(rows, reading.nodes):
            return False
        for use in reading.view.uses(rows):
            following = use.consumer
            if following in reading.nodes and following != last and following not in inner:
                if _takes_rows(reading.view, following, use.slot):
                    inner[following] = None
                    waiting.append(following)
    return True


def _described(api: str, reading: Reading, last: str) -> Lookup:
    tables = tuple(reading.tables.values())
    if len(tables) > 1:
        tables = tuple(dataclasses.replace(table, partitions=len(tables)) for table in tables)
    facts = reading.facts
    default_id = facts.get("default_id")
    return Lookup(
        api=api,
        tables=tables,
        ids=(reading.tensors["ids"],),
        output=TensorRef(last, 0),
        gathers=tuple(reading.tables),
        nodes=tuple(reading.nodes),
        combiner=facts.get("combiner"),
        weighted=facts.get("weighted", False),
        partition_strategy=facts.get("strategy"),
        max_norm=facts.get("max_norm", False),
        given=dict(reading.tensors),
        default_id=NO_DEFAULT if default_id is None else default_id,
        division=facts.get("division"),
        is_counted=facts.get("counted", False),
        unknown=reading.unknown_refusals(),
    )


def _label(lookup: Lookup) -> str:
    """The scope that all nodes of the lookup share, or the output's name where they share none.

    Several lookups of one node are told apart by their outputs' numbers.
    """
    paths = [name.split("/") for name in lookup.nodes]
    shared: Tuple[str, ...] = ()
    for parts in zip(*paths):
        if len(set(parts)) > 1:
            break
        shared += (parts[0],)
    label = "/".join(shared) or lookup.output.node
    return "{}:{}".format(label, lookup.output.index) if lookup.output.index else label
