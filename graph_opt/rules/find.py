"""Finds the lookups of a graph: starts at what reads a table, then grows pattern by pattern."""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.rules import (
    clip_by_norm,
    gather,
    group_lookup,
    partitioned_gather,
    safe_lookup,
    scattered_lookup,
    sparse_segment,
    weighted_combine,
)
from graph_opt.rules.forward import ForwardPart
from graph_opt.rules.function_body import refuse_lookups_in_functions
from graph_opt.rules.lookup import GROUP_EMBEDDING_LOOKUP_SPARSE, Lookup, LookupSearch
from graph_opt.rules.marked import find_marked


class Pattern(NamedTuple):
    """One step of growth.

    Attributes:
      grow: (view, forward, lookup) -> the lookup with the pattern around it, or None where the
        pattern is not there or its inside is read elsewhere; pure, called once for each gather.
      reason: Why it stands at this place.
    """

    grow: Callable[[GraphView, ForwardPart, Lookup], Optional[Lookup]]
    reason: str


PATTERNS = (
    Pattern(gather.grow, "first: TF 1.15 reads resource variables through an Identity"),
    Pattern(clip_by_norm.grow, "before the last Identity, which stands behind the clipping"),
    Pattern(gather.grow, "that last Identity"),
    Pattern(partitioned_gather.grow, "joins gathers, all of which have their Identities by now"),
    Pattern(clip_by_norm.grow, "shards are clipped once they are stitched"),
    Pattern(sparse_segment.grow, "combines rows, whole or stitched"),
    Pattern(weighted_combine.grow, "the other way to combine; never both"),
    Pattern(scattered_lookup.grow, "combines rows whose ids are hashes; never with the others"),
    Pattern(safe_lookup.grow, "stands around a combined lookup"),
    Pattern(gather.trim, "last: only now is it known which Identities no pattern stands behind"),
)


def find_lookups(view: GraphView) -> LookupSearch:
    """Every embedding lookup of the forward part of a graph, each once, in linear time.

    Where the inside of a pattern is read elsewhere in the forward part, the lookup ends before
    that pattern: at worst at the gather itself.

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
            started = _start(view, forward, name)
        except Refusal as refusal:
            if forward.feeds_model(name):
                refusals.append(refusal)
            continue
        if started and forward.feeds_model(name):
            grown = [_grow(view, forward, lookup) for lookup in started]
            claimed.update(gather for lookup in grown for gather in lookup.gathers)
            lookups.extend(grown)
    marked = find_marked(view, {lookup.output for lookup in lookups})
    refusals.extend(refuse_lookups_in_functions(view, forward))
    refusals.extend(marked.refusals)
    return LookupSearch(tuple(lookups) + marked.lookups, tuple(refusals))


def _starts(view: GraphView) -> List[str]:
    """Every node that may read rows of a table, in graph order."""
    ops = gather.STARTS | group_lookup.STARTS | frozenset(sparse_segment.COMBINERS)
    found: Dict[str, None] = dict.fromkeys(view.of_op(*sorted(ops)))
    return [name for name in view.nodes if name in found]


def _start(view: GraphView, forward: ForwardPart, name: str) -> List[Lookup]:
    if view.op(name) in group_lookup.STARTS:
        return group_lookup.start(view, forward, name)
    start = gather.start if view.op(name) in gather.STARTS else sparse_segment.start
    lookup = start(view, name)
    return [] if lookup is None else [lookup]


def _grow(view: GraphView, forward: ForwardPart, lookup: Lookup) -> Lookup:
    if lookup.api != GROUP_EMBEDDING_LOOKUP_SPARSE:  # it is whole as it is
        for pattern in PATTERNS:
            lookup = pattern.grow(view, forward, lookup) or lookup
    return dataclasses.replace(lookup, name=_label(lookup))


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
