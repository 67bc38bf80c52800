"""Splits the lookups that follow an IO stage off into prefetch stages."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, FrozenSet, Iterator, List, Optional, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.config.options import AsyncEmbeddingOptions, SessionOptions
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_spec import KIND_PREFETCH, StageSpec
from graph_opt.ops.stage_threads import has_stage_threads
from graph_opt.passes.io_stages import is_stage
from graph_opt.passes.name_map import NameMap
from graph_opt.passes.node_writer import stage_names
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.prefetch.beyond_lookups import BeyondLookups
from graph_opt.passes.prefetch.boundary import BoundaryFinder
from graph_opt.passes.prefetch.conditional_inputs import JoinedInputs
from graph_opt.passes.prefetch.exact.exact_rows import refuse_inexact
from graph_opt.passes.prefetch.exact.exact_tables import ExactTables
from graph_opt.passes.prefetch.measured_lookups import Sampling, crossing
from graph_opt.passes.prefetch.missed_updates import most_missed_by
from graph_opt.passes.prefetch.region import PrefetchRegion
from graph_opt.passes.prefetch.regions import BatchInputs, joined_inputs
from graph_opt.passes.prefetch.stage_rewrite import StageRewrite
from graph_opt.passes.prefetch.verify_stages import refuse_rewritten
from graph_opt.passes.protect_gathers import ExposedRead, exposed_reads
from graph_opt.passes.report_entries import lookup_outcome, stage_report
from graph_opt.passes.transfers.pack_transfers import pack_transfers
from graph_opt.passes.unused_gradients import UnusedGradients, unused_gradients
from graph_opt.passes.unused_lookups import unused_lookups
from graph_opt.reporting.outcomes import (
    LookupOutcome,
    StageReport,
)
from graph_opt.reporting.report import Report
from graph_opt.rules import find_lookups
from graph_opt.rules.lookup import COLUMNS, EXCHANGED_LOOKUP, Lookup
from graph_opt.rules.lookups.indicator import find_indicators

_STAGE_NAME = "async_embedding"
_PACKED = "{} {} tensors from {} to {} travel as one"


def async_embedding(state: PassState, options: SessionOptions) -> PassState:
    """Splits the graph, and packs what its stages transfer between tasks.

    Raises:
      InvalidArgumentError: There are lookups on batches of an iterator or queue but no IO stage,
        and `infer_io_stage` is off.
      FailedPreconditionError: The graph was split before.
    """
    if options.async_embedding is None:
        return state
    joined = joined_inputs(state.view, options.async_embedding.infer_io_stage)
    changed = state.rewritten(joined.rewrite)
    measured = state.name_map.part(Sampling)
    planner = _Planner(
        changed.view,
        options.async_embedding,
        options,
        joined,
        state.name_map.part(ExactTables),
        crossing(measured.regions if measured is not None else ()),
    )
    rewrite = planner.plan()
    if not planner.stages:
        return dataclasses.replace(state, report=planner.report(state.report))
    split = dataclasses.replace(
        changed.rewritten(rewrite),
        name_map=planner.name_map(state.name_map),
        report=planner.report(state.report),
    )
    packing = pack_transfers(split.view, split.name_map.not_run, planner.stages[0].name)
    changes = [
        _PACKED.format(each.tensors, each.dtype, each.source, each.target)
        for each in packing.packed
    ]
    return split.rewritten(packing.rewrite).reporting(*changes, packed_transfers=packing.packed)


class _Planner:
    """One run of the pass on one graph."""

    def __init__(
        self,
        view: GraphView,
        options: AsyncEmbeddingOptions,
        session: SessionOptions,
        joined: JoinedInputs,
        exact: Optional[ExactTables],
        sampled: FrozenSet[TensorRef] = frozenset(),
    ) -> None:
        refuse_rewritten(view)
        self._view = view
        self._options = options
        self._session = session
        fetched = frozenset(TensorRef.parse(name) for name in session.fetched)
        self._fetched = fetched | sampled
        self._search = find_lookups(view)
        self._columns = find_indicators(view)
        self._joined = joined
        self._exact = exact
        self._batches = BatchInputs(view, options.infer_io_stage, joined)
        self._flow = self._batches.flow
        self._exposed: List[ExposedRead] = exposed_reads(view)
        self._unused: UnusedGradients = unused_gradients(view)
        self._beyond: Optional[BeyondLookups] = None
        if session.smart_stage is not None:
            self._beyond = BeyondLookups(
                view, self._flow, self._unused, options.threads_num, session.smart_stage
            )
        self._nodes: List[Any] = []
        self._inputs: List[Any] = []
        self._controls: List[Any] = []
        self._stages: List[StageReport] = []
        self._has_own_kernels = False
        self._taken: Dict[str, str] = {}
        self._prefetched: Dict[str, None] = {}
        self._broken: Set[str] = set()
        self._stage_of: Dict[str, str] = {}
        self._refused: List[Tuple[Lookup, Refusal]] = []

    @property
    def stages(self) -> Sequence[StageReport]:
        """The stages, available once `plan` has been called."""
        return self._stages

    def plan(self) -> Rewrite:
        """The rewrite that splits the graph."""
        everything = [*self._search.lookups, *self._columns]
        unused = unused_lookups(self._view, everything, self._fetched)
        inexact = self._inexact(everything)
        exchanged = {
            lookup.output.node
            for lookup in everything
            if lookup.api == EXCHANGED_LOOKUP
            and str(lookup.output) not in unused
            and str(lookup.output) not in inexact
        }
        unused.update(inexact)
        used: List[Lookup] = []
        left: List[Lookup] = []
        for lookup in everything:
            # An exchange that runs in prefetch makes all its lookups there.
            stays = str(lookup.output) in unused and lookup.output.node not in exchanged
            (left if stays else used).append(lookup)
        found = self._batches.regions(used, self._options.threads_num)
        self._refused.extend(found.refused)
        self._refused.extend((lookup, unused[str(lookup.output)]) for lookup in left)
        _require_io_stage(self._refused, found.regions)
        names = stage_names(self._view, _STAGE_NAME)
        order = {name: i for i, name in enumerate(self._flow.order)}
        regions = self._beyond.extend(found.regions) if self._beyond else found.regions
        for region in regions:
            self._add_stages(region, order, names)
        return Rewrite(tuple(self._nodes), tuple(self._inputs), tuple(self._controls))

    def _inexact(self, lookups: Sequence[Lookup]) -> Dict[str, Refusal]:
        """Why some lookups stay where rows must be exact, by name of their results."""
        refusals = {
            str(one.output): refuse_inexact(one, self._exact, self._options) for one in lookups
        }
        inexact = {name: refusal for name, refusal in refusals.items() if refusal}
        if inexact:
            # What would stay in any case has its own reason.
            staying = [one for one in lookups if str(one.output) in inexact]
            found = self._batches.regions(staying, self._options.threads_num)
            inexact.update((str(lookup.output), refusal) for lookup, refusal in found.refused)
        return inexact

    def name_map(self, before: NameMap) -> NameMap:
        """What names stand for after the rewrite."""
        taken = dict(self._taken)
        for tensor, joined in self._joined.aliases.items():
            if joined in taken:
                taken[tensor] = taken[joined]
        return dataclasses.replace(
            before.with_dead(self._broken),
            taken=taken,
            prefetched=frozenset(self._prefetched),
        )

    def report(self, before: Report) -> Report:
        """What became of each lookup."""
        lookups, refusals = self._search.lookups, self._search.refusals
        nothing = not lookups and not self._stages and not self._beyond
        idle = self._stages and self._options.intra_op_threads and not self._has_own_kernels
        return dataclasses.replace(
            before,
            lookups=tuple(self._outcome(lookup) for lookup in lookups),
            columns=tuple(self._outcome(column) for column in self._columns),
            refusals=tuple(refusal.to_dict() for refusal in refusals),
            stages=tuple(self._stages),
            regions=self._batches.sizes(sum(stage.nodes for stage in self._stages)),
            smart_stage=self._beyond.told() if self._beyond else before.smart_stage,
            warnings=before.warnings
            + ((_NO_LOOKUP,) if nothing and not refusals else ())
            + ((_NO_OWN_KERNELS,) if idle else ()),
        )

    def _add_stages(
        self, region: PrefetchRegion, order: Dict[str, int], names: Iterator[str]
    ) -> None:
        """Adds the stage of a region; if steps choose among several inputs, one for each."""
        boundary = BoundaryFinder(
            self._view, region, self._flow.masks, order, self._unused, self._fetched
        ).find()
        choice = self._batches.choices.get(region.source)
        count = choice.count if choice else 1
        specs = [self._spec(next(names), bool(region.exchanges)) for _ in range(count)]
        protected = {(read.reduction, 0) for read in self._exposed}
        builder = StageRewrite(self._view, region, boundary, self._unused, specs, protected, choice)
        try:
            rewrite = builder.build()
        except Refusal as refusal:
            self._refused.extend((lookup, refusal) for lookup in region.lookups)
            return
        if self._beyond:
            self._beyond.place(rewrite.nodes)
            self._beyond.count(boundary)
        self._has_own_kernels |= any(has_stage_threads(node) for node in rewrite.nodes)
        self._nodes.extend(rewrite.nodes)
        self._inputs.extend(rewrite.inputs)
        self._controls.extend(rewrite.controls)
        self._prefetched.update(boundary.hidden)
        self._broken.update(boundary.broken)
        self._stage_of.update((lookup.output.node, specs[0].name) for lookup in region.lookups)
        taken = {tensor: _full_name(take) for tensor, take in builder.takes.items()}
        self._taken.update((str(tensor), take) for tensor, take in taken.items())
        self._stages.extend(
            stage_report(
                self._view,
                spec,
                taken,
                io_source=choice.name_of(number) if choice else region.source,
                inferred=not is_stage(self._view, region.source),
                nodes=(*region.nodes, *boundary.absorbed),
            )
            for number, spec in enumerate(builder.specs)
        )

    def _spec(self, name: str, exchanges: bool) -> StageSpec:
        options = self._options
        spec = StageSpec(
            name,
            KIND_PREFETCH,
            timeout_millis=options.timeout_millis,
            thread_pool=options.thread_pool,
            intra_op_threads=options.intra_op_threads,
            priority=options.prefetch_priority,
            exact=options.exact,
        ).sized(options.threads_num, options.capacity, options.tuning_bytes)
        # All ranks exchange the messages of the same batch, so batches have an order.
        ordered = exchanges or (spec.has_several_threads and not options.unordered)
        return spec._replace(ordered=ordered)

    def _outcome(self, lookup: Lookup) -> LookupOutcome:
        refusals = {id(refused): refusal for refused, refusal in self._refused}
        refusal = refusals.get(id(lookup))
        if refusal is not None:
            return lookup_outcome(lookup, refusal=refusal)
        missed = most_missed_by(lookup, self._exact, self._session)
        stage = self._stage_of.get(lookup.output.node, "")
        return lookup_outcome(lookup, stage, most_missed=missed)


_NO_LOOKUP = (
    "no embedding lookup was found, nothing was moved: the graph has no gather of variable rows "
    "that graph_opt recognises (mark one with graph_opt.async_embedding_mark_node)"
)
_NO_OWN_KERNELS = (
    "session_stage_subgraph_thread_pool.intra_op_threads_num has no effect: only graph_opt's own "
    "kernels use such threads, and no lookup that runs ahead is one of them (do_group_embedding "
    "makes them such)"
)


def _require_io_stage(
    refused: Sequence[Tuple[Lookup, Refusal]], regions: Sequence[PrefetchRegion]
) -> None:
    if regions:
        return
    for lookup, refusal in refused:
        if refusal.code == "no_io_stage" and lookup.api not in COLUMNS:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                "do_async_embedding needs an IO stage, and the graph has none: lookup '{}' takes "
                "its batches from '{}' ({}). Wrap the features with graph_opt.staged(features), or "
                "set async_embedding_options.infer_io_stage to have one put there.".format(
                    lookup.name, refusal.node, refusal.saw
                ),
            )


def _full_name(text: str) -> str:
    return str(TensorRef.parse(text))
