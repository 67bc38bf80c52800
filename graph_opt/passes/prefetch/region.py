"""Decides which lookups move into prefetch, and which nodes move with them."""

from __future__ import annotations

from types import MappingProxyType
from typing import (
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from graph_opt.compat.stateful_ops import BRING_ROWS
from graph_opt.graph.control_flow_ops import MERGES, SWITCHES
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.io_stages import BatchFlow, is_stage, sources_of
from graph_opt.passes.prefetch.choices import Choice
from graph_opt.passes.prefetch.movable import Movability
from graph_opt.passes.prefetch.shared_inputs import refuse_shared
from graph_opt.rules.exchanges import Exchange, exchanges_of
from graph_opt.rules.lookup import MARKED, Lookup

_Branches = FrozenSet[Tuple[TensorRef, int]]
_NO_BRANCH: _Branches = frozenset()


class PrefetchRegion(NamedTuple):
    """The part of the graph between one batch source and the lookups that move.

    Attributes:
      source: The node that returns batches.
      nodes: Every node that moves, in topological order, without the source.
      lookups: The lookups whose outputs the region computes.
      conditional: Those of `nodes` that a tf.cond may skip.
      exchanges: Those that make some of `lookups`.
    """

    source: str
    nodes: Tuple[str, ...]
    lookups: Tuple[Lookup, ...]
    conditional: FrozenSet[str] = frozenset()
    exchanges: Tuple[Exchange, ...] = ()


class RegionSearch(NamedTuple):
    """What moves, and why the rest stays.

    Attributes:
      regions: One for each batch source with a lookup that moves.
      refused: The lookups that stay in main, with the reason.
    """

    regions: Tuple[PrefetchRegion, ...]
    refused: Tuple[Tuple[Lookup, Refusal], ...]


class RegionFinder:
    """Finds the prefetch regions of one graph.

    Args:
      view: The graph.
      flow: Its batch flow.
      lookups: The lookups that were recognised.
      movability: Decides about single operations.
      infer_io_stage: Whether an iterator or queue may serve as batch source.
      choices: The sources that return a batch of one of several inputs.
    """

    def __init__(
        self,
        view: GraphView,
        flow: BatchFlow,
        lookups: Sequence[Lookup],
        movability: Movability,
        infer_io_stage: bool,
        choices: Mapping[str, Choice] = MappingProxyType({}),
    ) -> None:
        self._view = view
        self._choices = choices
        self._flow = flow
        self._lookups = lookups
        self._movability = movability
        self._infer_io_stage = infer_io_stage
        self._table_reads = _table_reads(view, lookups)
        self._sources = set(flow.sources)
        exchanges = exchanges_of(view, lookups)
        self._exchanges = {message: each for each in exchanges for message in each.messages}
        self._candidates = self._upstream(lookup.output.node for lookup in lookups)
        marked = [lookup.output.node for lookup in lookups if lookup.api == MARKED]
        self._marked = self._upstream(marked)
        self._branches = self._conditional_branches()
        self._blocked: Dict[str, Refusal] = {}

    def find(self) -> RegionSearch:
        """The regions with everything that can move, and each refused lookup with its reason."""
        pinned: Dict[str, Refusal] = {}
        while True:
            self._blocked = self._block(pinned)
            search = self._assemble()
            fresh = self._unsafe_boundaries(search.regions, pinned)
            if not fresh:
                return search
            pinned.update(fresh)

    def _upstream(self, outputs: Iterable[str]) -> Dict[str, None]:
        """Nodes that a batch reaches and that the outputs depend on, without the sources."""
        masks = self._flow.masks
        starts = [n for n in outputs if n in masks and n not in self._sources]
        seen: Dict[str, None] = dict.fromkeys(starts)
        stack = list(seen)
        while stack:
            for node in self._batch_inputs(stack.pop()):
                if node not in seen and node not in self._sources:
                    seen[node] = None
                    stack.append(node)
        return seen

    def _batch_inputs(self, name: str) -> List[str]:
        masks = self._flow.masks
        data = [tensor.node for tensor in self._view.inputs(name) if tensor.node in masks]
        return data + [source for source in self._view.controls(name) if source in masks]

    def _block(self, pinned: Dict[str, Refusal]) -> Dict[str, Refusal]:
        """For every candidate that cannot move, the first reason, its own or inherited."""
        blocked: Dict[str, Refusal] = {}
        for name in self._flow.order:
            if name not in self._candidates:
                continue
            refusal = pinned.get(name) or self._inherited(name, blocked) or self._own(name)
            if refusal is not None:
                blocked[name] = refusal
        return blocked

    def _inherited(self, name: str, blocked: Dict[str, Refusal]) -> Optional[Refusal]:
        for source in self._batch_inputs(name):
            if source in blocked:
                return blocked[source]
        return None

    def _own(self, name: str) -> Optional[Refusal]:
        sources = sources_of(self._flow, self._flow.masks[name])
        if len(sources) > 1:
            return self._refuse_several(name, sources)
        refusal = self._refuse_source(sources[0])
        if name in self._exchanges:
            refusal = refusal or self._refuse_message(name)
        else:
            refusal = refusal or self._movability.refuse_operation(name)
        return refusal or self._refuse_outside_inputs(name)

    def _refuse_message(self, name: str) -> Optional[Refusal]:
        """Each rank sends the messages of a batch at once, or one that it has none, for each."""
        exchange = self._exchanges[name]
        if self._is_conditional(name):
            need, saw = "an exchange that every batch needs", "one inside a tf.cond"
            return Refusal("collective_upstream", at=name, need=need, saw=saw)
        others = {message for message in self._exchanges if message not in exchange.messages}
        above = others.intersection(self._view.ancestors([exchange.ids])) if others else None
        if not above:
            return None
        need = "ids that do not depend on another exchange"
        return Refusal("collective_upstream", at=name, need=need, saw=sorted(above)[0])

    def _refuse_several(self, name: str, sources: Sequence[str]) -> Refusal:
        for source in sources:
            above = [node for node in self._view.predecessors(source) if node in self._flow.masks]
            if above:
                need = "a source that depends on no batch"
                return Refusal("batch_source_in_main", at=source, need=need, saw=above[0])
        saw = ", ".join(sources)
        return Refusal("several_io_stages", at=name, need="ids from one IO stage", saw=saw)

    def _refuse_source(self, source: str) -> Optional[Refusal]:
        if self._infer_io_stage or is_stage(self._view, source):
            return refuse_source(self._view, source, self._movability, self._choices.get(source))
        return Refusal(
            "no_io_stage",
            at=source,
            need="graph_opt.staged(...) around the features, or infer_io_stage",
            saw=self._view.op(source),
        )

    def _refuse_outside_inputs(self, name: str) -> Optional[Refusal]:
        masks = self._flow.masks
        allowed = name in self._table_reads or name in self._marked
        above = [tensor.node for tensor in self._view.inputs(name)]
        for source in above + list(self._view.controls(name)):
            if source in masks:
                continue
            refusal = self._movability.refuse_outside(name, source, allowed)
            if refusal is not None:
                return refusal
        return None

    def _assemble(self) -> RegionSearch:
        moved: Dict[str, List[Lookup]] = {}
        refused: List[Tuple[Lookup, Refusal]] = []
        for lookup in self._lookups:
            refusal = self._refuse_lookup(lookup)
            if refusal is not None:
                refused.append((lookup, refusal))
                continue
            source = sources_of(self._flow, self._flow.masks[lookup.output.node])[0]
            moved.setdefault(source, []).append(lookup)
        needed = {
            source: self._upstream(lookup.output.node for lookup in lookups)
            for source, lookups in moved.items()
        }
        ordered: Dict[str, List[str]] = {source: [] for source in moved}
        for name in self._flow.order:
            if name not in self._candidates or name in self._blocked:
                continue
            source = sources_of(self._flow, self._flow.masks[name])[0]
            if source in needed and name in needed[source]:
                ordered[source].append(name)
        regions = tuple(
            PrefetchRegion(
                source,
                tuple(ordered[source]),
                tuple(moved[source]),
                frozenset(name for name in ordered[source] if self._is_conditional(name)),
                exchanges_of(self._view, moved[source]),
            )
            for source in self._flow.sources
            if source in moved
        )
        return RegionSearch(regions, tuple(refused))

    def _refuse_lookup(self, lookup: Lookup) -> Optional[Refusal]:
        node = lookup.output.node
        if node not in self._flow.masks:
            return self._movability.refuse_placeholder(node) or Refusal(
                "no_io_dependence", at=node, need="ids that come from a batch", saw="none upstream"
            )
        if node in self._sources:
            return Refusal(
                "no_io_dependence", at=node, need="a lookup after the source", saw="the source"
            )
        return self._blocked.get(node)

    def _conditional_branches(self) -> Dict[str, _Branches]:
        """For nodes inside a tf.cond of v1 control flow, the branches that contain them."""
        view = self._view
        branches: Dict[str, _Branches] = {}
        if not view.of_op(*SWITCHES):
            return branches
        for name in self._flow.order:
            found = self._branches_of(name, branches)
            if found:
                branches[name] = found
        return branches

    def _branches_of(self, name: str, known: Dict[str, _Branches]) -> _Branches:
        view = self._view
        above = []
        for tensor in view.inputs(name):
            outer = known.get(tensor.node, _NO_BRANCH)
            if view.op(tensor.node) in SWITCHES:
                outer = outer | {(view.inputs(tensor.node)[1], tensor.index)}
            above.append(outer)
        if view.op(name) in MERGES and above:
            return frozenset.intersection(*above)
        above += [known.get(source, _NO_BRANCH) for source in view.controls(name)]
        return _NO_BRANCH.union(*above)

    def _is_conditional(self, name: str) -> bool:
        return name in self._branches or self._view.op(name) in SWITCHES

    def _unsafe_boundaries(
        self, regions: Sequence[PrefetchRegion], pinned: Dict[str, Refusal]
    ) -> Dict[str, Refusal]:
        """Refuses tensors that main would read from inside a branch, which may not run."""
        if not self._branches:
            return {}
        fresh: Dict[str, Refusal] = {}
        for region in regions:
            moved: Set[str] = set(region.nodes)
            for name in region.nodes:
                if name not in region.conditional or name in pinned:
                    continue
                reader = self._reader_outside(name, moved)
                if reader is not None:
                    fresh[name] = Refusal(
                        "boundary_in_control_flow",
                        at=name,
                        need="a tf.cond that moves entirely",
                        saw="an inner node read by " + reader,
                    )
        return fresh

    def _reader_outside(self, name: str, moved: Set[str]) -> Optional[str]:
        readers = [use.consumer for _, use in self._view.node_uses(name)]
        for reader in readers + list(self._view.control_uses(name)):
            if reader not in moved:
                return reader
        return None


def _table_reads(view: GraphView, lookups: Sequence[Lookup]) -> Set[str]:
    """The nodes that read tables row by row, and those that catch up the rows for them."""
    gathers = {gather for lookup in lookups for gather in lookup.gathers}
    waited_for = {source for gather in gathers for source in view.controls(gather)}
    return gathers | {source for source in waited_for if view.op(source) in BRING_ROWS}


def refuse_source(
    view: GraphView, source: str, movability: Movability, choice: Optional[Choice]
) -> Optional[Refusal]:
    """Why no IO stage can be put behind a batch source, if it has none.

    Args:
      view: The graph.
      source: The node that returns batches.
      movability: Decides about what it reads.
      choice: The inputs that a step chooses from, if the source stands for several.
    """
    if is_stage(view, source):
        return None
    shared = refuse_shared(view, source, choice)
    if shared is not None:
        return shared
    if choice is not None:
        return choice.refuse(movability) or movability.refuse_datasets(choice.iterators)
    handles = [tensor.node for tensor in view.inputs(source)]
    for node in handles + list(view.controls(source)):
        refusal = movability.refuse_outside(source, node, reads_table=True)
        if refusal is not None:
            return refusal
    return movability.refuse_datasets([source])
