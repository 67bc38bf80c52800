"""Finds the lookups of a graph: from each read of a table to the largest pattern that contains it.

    gather ──> Identity ──> SparseSegmentMean ──> Select ──> Reshape
    start                   a lookup even if      candidates for the last node of a pattern,
                            the rest differs      furthest first: the first match is the lookup

Only a few kinds of ops pass rows on (`op_names.ROW_INPUTS`), and each node along these paths may be
the last node of a pattern. From there, patterns are matched backwards to the inputs of the public
function.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.shared_views import asked_once
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import lookup as apis
from graph_opt.rules.lookup import Lookup, LookupSearch
from graph_opt.rules.lookups import foreign_tables, gather, group
from graph_opt.rules.lookups.embedding_lookup import CLIPPED, SHARDED
from graph_opt.rules.lookups.embedding_lookup_sparse import SPARSE
from graph_opt.rules.lookups.functions import refuse_lookups_in_functions
from graph_opt.rules.lookups.marked import find_marked
from graph_opt.rules.lookups.safe_lookup_sparse import NO_DEFAULT, SAFE
from graph_opt.rules.lookups.scattered import SCATTERED
from graph_opt.rules.match.forward import ForwardPart
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern
from graph_opt.rules.op_names import COMBINERS, ROW_INPUTS, STITCHES, UNIQUES

# The longest path has some 15 nodes; gradients read rows by the same ops.
_LONGEST_PATH = 24
_MAX_CANDIDATES = 200


class Declared(NamedTuple):
    """The pattern of one API.

    Attributes:
      api: Its public name.
      pattern: The graph that it writes, matched backwards from the result.
      marks: Op types that identify the API: a partial match that contains one is worth reporting.
      reason: Why it is in this place of the order.
    """

    api: str
    pattern: Pattern
    marks: FrozenSet[str]
    reason: str

    def is_meant(self, match: Match) -> bool:
        """Whether a failed match got far enough for its mismatch to be worth reporting."""
        return not self.marks.isdisjoint(match.reached_ops)


DECLARED = (
    Declared(
        apis.SAFE_EMBEDDING_LOOKUP_SPARSE,
        SAFE,
        frozenset(["SparseFillEmptyRows"]),
        "first: it contains a sparse lookup",
    ),
    Declared(apis.EMBEDDING_LOOKUP_SPARSE, SPARSE, UNIQUES, "contains a lookup of rows"),
    Declared(
        apis.SCATTERED_EMBEDDING_LOOKUP_SPARSE,
        SCATTERED,
        frozenset(),
        "contains one, too, at hashed positions, which no sparse lookup has",
    ),
    Declared(
        apis.EMBEDDING_LOOKUP,
        SHARDED,
        frozenset(["DynamicPartition"]),
        "contains the gathers of all shards, clipped or not",
    ),
    Declared(apis.EMBEDDING_LOOKUP, CLIPPED, frozenset(), "contains a gather"),
)
_BY_LAST_OP: Dict[str, List[Declared]] = {}
for _declared in DECLARED:
    assert _declared.pattern.ops is not None, "a pattern must name the ops that may end it"
    for _op in _declared.pattern.ops:
        _BY_LAST_OP.setdefault(_op, []).append(_declared)


@asked_once
def find_lookups(view: GraphView) -> LookupSearch:
    """Finds every embedding lookup of the forward part of a graph once, in linear time.

    If the forward part reads an inner tensor of a pattern elsewhere, or differs from what the
    public function writes, the lookup is that of a smaller pattern; at worst the gather alone.

    Args:
      view: The graph, with or without its training part.

    Returns:
      The lookups in graph order, marked tensors last, and the refusals: tables read inside control
      flow or functions, and other reads that passes must not touch.

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
        if found and (forward.feeds_model(name) or view.op(name) in foreign_tables.STARTS):
            claimed.update(reader for lookup in found for reader in lookup.gathers)
            lookups.extend(found)
    marked = find_marked(view, {lookup.output for lookup in lookups})
    refusals.extend(refuse_lookups_in_functions(view, forward))
    refusals.extend(marked.refusals)
    return LookupSearch(tuple(lookups) + marked.lookups, tuple(refusals))


def _starts(view: GraphView) -> List[str]:
    """Every node that may read rows of a table, in graph order."""
    ops = gather.STARTS | group.STARTS | foreign_tables.STARTS | frozenset(COMBINERS)
    found: Dict[str, None] = dict.fromkeys(view.of_op(*sorted(ops)))
    return [name for name in view.nodes if name in found]


def _found(view: GraphView, forward: ForwardPart, name: str) -> List[Lookup]:
    """The lookups whose table a node reads."""
    if view.op(name) in group.STARTS:
        lookups = group.start(view, forward, name)
    elif view.op(name) in foreign_tables.STARTS:
        foreign = foreign_tables.start(view, forward, name)
        lookups = [] if foreign is None else [foreign]
    else:
        started = gather.start(view, name)
        lookups = [] if started is None else [_largest(view, forward, started)]
    return [dataclasses.replace(lookup, name=_label(lookup)) for lookup in lookups]


def _largest(view: GraphView, forward: ForwardPart, started: Lookup) -> Lookup:
    """The largest lookup around a read of a table's rows."""
    larger: Optional[Match] = None
    found: Optional[Lookup] = None
    for candidate in _candidates(view, started.output):
        for declared in _BY_LAST_OP.get(view.op(candidate), ()):
            match = Match(view)
            if not declared.pattern.match(match, TensorRef(candidate, 0)):
                if declared.is_meant(match) and (not larger or match.steps > larger.steps):
                    larger = match
            elif found is None and _is_apart(forward, match, started, candidate):
                found = _described(declared.api, match, candidate)
        if found is not None:
            break
    lookup = found or started
    if lookup.combiner is None and lookup.partition_strategy is None:
        lookup = gather.with_identities(view, forward, lookup)
    return dataclasses.replace(lookup, larger=larger.refusal() if larger else None)


def _candidates(view: GraphView, rows: TensorRef) -> List[str]:
    """Nodes that a table's rows reach through ops of lookups, furthest first."""
    distances: Dict[str, int] = {rows.node: 0}
    waiting = [rows.node]
    for name in waiting:
        if distances[name] == _LONGEST_PATH or len(distances) > _MAX_CANDIDATES:
            break
        for use in view.uses(TensorRef(name, 0)):
            if use.consumer not in distances and _takes_rows(view, use.consumer, use.slot):
                distances[use.consumer] = distances[name] + 1
                waiting.append(use.consumer)
    return sorted(distances, key=lambda name: -distances[name])


def _takes_rows(view: GraphView, name: str, slot: int) -> bool:
    op = view.op(name)
    return ROW_INPUTS.get(op) == slot or op in STITCHES


def _is_apart(forward: ForwardPart, match: Match, started: Lookup, last: str) -> bool:
    """Whether the model reads inner rows nowhere else, and weights depend on no variable."""
    if started.output.node not in match.tables:
        return False
    weights = match.tensors.get("weights")
    if weights is not None and forward.depends_on_dense_variable(weights.node):
        return False
    inner: Dict[str, None] = {name: None for name in match.tables if name != last}
    waiting = list(inner)
    while waiting:
        name = waiting.pop()
        rows = TensorRef(name, 0)
        if not forward.stays_inside(rows, match.nodes):
            return False
        for use in match.view.uses(rows):
            following = use.consumer
            if following in match.nodes and following != last and following not in inner:
                if _takes_rows(match.view, following, use.slot):
                    inner[following] = None
                    waiting.append(following)
    return True


def _described(api: str, match: Match, last: str) -> Lookup:
    tables = tuple(match.tables.values())
    if len(tables) > 1:
        tables = tuple(dataclasses.replace(table, partitions=len(tables)) for table in tables)
    facts = match.facts
    default_id = facts.get("default_id")
    return Lookup(
        api=api,
        tables=tables,
        ids=(match.tensors["ids"],),
        output=TensorRef(last, 0),
        gathers=tuple(match.tables),
        nodes=tuple(match.nodes),
        combiner=facts.get("combiner"),
        weighted=facts.get("weighted", False),
        partition_strategy=facts.get("strategy"),
        max_norm=facts.get("max_norm", False),
        given=dict(match.tensors),
        default_id=NO_DEFAULT if default_id is None else default_id,
        divides_by_zero=facts.get("divides_by_zero", False),
        is_counted=facts.get("counted", False),
        unknown=match.unknown_refusals(),
    )


def _label(lookup: Lookup) -> str:
    """The scope that all nodes of the lookup share, or else the name of the output's node.

    Several lookups of one node are distinguished by their output numbers.
    """
    paths = [name.split("/") for name in lookup.nodes]
    shared: Tuple[str, ...] = ()
    for parts in zip(*paths):
        if len(set(parts)) > 1:
            break
        shared += (parts[0],)
    label = "/".join(shared) or lookup.output.node
    return "{}:{}".format(label, lookup.output.index) if lookup.output.index else label
