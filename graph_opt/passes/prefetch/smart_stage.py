"""Runs what stands between a batch and the variables ahead of the step.

    source -> parse -> normalize -> | layers of variables -> loss

Where lookups were moved, their stage has done this already. Otherwise the constant part gets a
stage of its own: as much of it as main reads the results of.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Set, Tuple

from graph_opt.config.options import SessionOptions
from graph_opt.config.smart_stage import SmartStageOptions
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_spec import KIND_PREFETCH, StageSpec
from graph_opt.passes.io_stages import is_stage
from graph_opt.passes.name_map import NameMap
from graph_opt.passes.node_writer import stage_names
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.prefetch.boundary import BoundaryFinder
from graph_opt.passes.prefetch.conditional_inputs import JoinedInputs
from graph_opt.passes.prefetch.constant_part import ConstantPart
from graph_opt.passes.prefetch.movable import Movability
from graph_opt.passes.prefetch.region import PrefetchRegion, refuse_source
from graph_opt.passes.prefetch.region_clone import cpu_of
from graph_opt.passes.prefetch.regions import BatchInputs, joined_inputs
from graph_opt.passes.prefetch.stage_rewrite import StageRewrite
from graph_opt.passes.prefetch.verify_stages import refuse_rewritten
from graph_opt.passes.report_entries import stage_report
from graph_opt.passes.unused_gradients import unused_gradients
from graph_opt.reporting.outcomes import StageReport
from graph_opt.reporting.report import Report
from graph_opt.reporting.tables import counted

_COVERED = (
    "no smart stage: do_async_embedding runs the lookups ahead, and with them all that could be"
)
_NO_SOURCE = "no smart stage: the graph has no IO stage, iterator or queue"
_SEVERAL = (
    "no smart stage: the graph has several iterators or queues ({}); wrap the features of one in "
    "graph_opt.staged(...)"
)
_NOTHING = "no smart stage: nothing but variables and state reads the batch of '{}'"
_REFUSED = "no smart stage behind '{}': {}"
_STAGED = "smart stage: {} moved ahead of the step, {} cross"


def smart_stage(state: PassState, options: SessionOptions) -> PassState:
    """Makes a stage behind each IO stage or, if there is none, behind the graph's only source.

    Raises:
      FailedPreconditionError: The graph was split before.
    """
    if options.smart_stage is None:
        return state
    if state.report.stages:
        return state if state.report.smart_stage else _leaving(state, _COVERED)
    refuse_rewritten(state.view)
    joined = joined_inputs(state.view, infer_io_stage=True)
    changed = state.rewritten(joined.rewrite)
    planner = _Planner(changed.view, options, joined)
    rewrite = planner.plan()
    if not planner.stages:
        return _leaving(state, *planner.reasons)
    changed = _leaving(changed.rewritten(rewrite), *planner.reasons)
    return dataclasses.replace(
        changed,
        name_map=planner.name_map(changed.name_map),
        report=planner.report(changed.report),
    )


class _Planner:
    """One run of the pass on one graph."""

    def __init__(self, view: GraphView, options: SessionOptions, joined: JoinedInputs) -> None:
        assert options.smart_stage is not None
        self._view = view
        self._options: SmartStageOptions = options.smart_stage
        self._fetched = frozenset(TensorRef.parse(name) for name in options.fetched)
        self._joined = joined
        self._inputs = BatchInputs(view, True, joined)
        self._movability = Movability(view, self._options.threads_num, constant_state=True)
        self._unused = unused_gradients(view)
        self._order = {name: i for i, name in enumerate(self._inputs.flow.order)}
        self._names = stage_names(view, self._options.name)
        self._taken: Dict[str, str] = {}
        self._prefetched: Dict[str, None] = {}
        self._broken: Set[str] = set()
        self.stages: List[StageReport] = []
        self.reasons: List[str] = []

    def plan(self) -> Rewrite:
        """The rewrite that adds the stages; `stages` and `reasons` tell which, and why no more."""
        sources = self._sources()
        constant = ConstantPart(
            self._view, self._inputs.flow, sources, self._movability, self._unused
        )
        rewrites = [self._rewrite(source, constant.read_by_main(source)) for source in sources]
        return Rewrite(
            tuple(node for each in rewrites for node in each.nodes),
            tuple(edit for each in rewrites for edit in each.inputs),
            tuple(edit for each in rewrites for edit in each.controls),
        )

    def name_map(self, before: NameMap) -> NameMap:
        """What names stand for after the rewrite."""
        taken = {**before.taken, **self._taken}
        for tensor, joined in self._joined.aliases.items():
            if joined in self._taken:
                taken[tensor] = self._taken[joined]
        return dataclasses.replace(
            before.with_dead(self._broken),
            taken=taken,
            prefetched=before.prefetched.union(self._prefetched),
        )

    def report(self, before: Report) -> Report:
        """What runs ahead."""
        nodes = sum(stage.nodes for stage in self.stages)
        crossing = sum(len(stage.boundary) for stage in self.stages)
        return dataclasses.replace(
            before,
            stages=tuple(self.stages),
            regions=self._inputs.sizes(nodes),
            smart_stage=_STAGED.format(counted(nodes, "node"), counted(crossing, "tensor")),
        )

    def _sources(self) -> List[str]:
        """The IO stages, or else the only source of batches."""
        sources = self._inputs.flow.sources
        stages = [source for source in sources if is_stage(self._view, source)]
        if stages or len(sources) == 1:
            return stages or list(sources)
        self.reasons.append(_SEVERAL.format(", ".join(sources)) if sources else _NO_SOURCE)
        return []

    def _rewrite(self, source: str, moved: Tuple[str, ...]) -> Rewrite:
        choice = self._inputs.choices.get(source)
        region = PrefetchRegion(source, moved, ())
        if not moved:
            self.reasons.append(_NOTHING.format(source))
            return Rewrite()
        refusal = refuse_source(self._view, source, self._movability, choice)
        if refusal is not None:
            self.reasons.append(_REFUSED.format(source, refusal))
            return Rewrite()
        boundary = BoundaryFinder(
            self._view, region, self._inputs.flow.masks, self._order, self._unused, self._fetched
        ).find()
        specs = [self._spec(next(self._names)) for _ in range(choice.count if choice else 1)]
        builder = StageRewrite(self._view, region, boundary, self._unused, specs, set(), choice)
        try:
            rewrite = builder.build()
        except Refusal as error:
            self.reasons.append(_REFUSED.format(source, error))
            return Rewrite()
        self._prefetched.update(boundary.hidden)
        self._broken.update(boundary.broken)
        self._taken.update(
            (str(tensor), str(TensorRef.parse(take))) for tensor, take in builder.takes.items()
        )
        taken = {tensor: self._taken[str(tensor)] for tensor in builder.takes}
        self.stages.extend(
            stage_report(
                self._view,
                spec,
                taken,
                io_source=choice.name_of(number) if choice else source,
                inferred=not is_stage(self._view, source),
                nodes=(*region.nodes, *boundary.absorbed),
            )
            for number, spec in enumerate(builder.specs)
        )
        if self._options.on_cpu:
            for node in rewrite.nodes:
                node.device = cpu_of(node.device)
        return rewrite

    def _spec(self, name: str) -> StageSpec:
        options = self._options
        spec = StageSpec(
            name,
            KIND_PREFETCH,
            timeout_millis=options.timeout_millis,
            thread_pool=options.thread_pool,
            closed_codes=options.closed_codes,
            ignored_codes=options.ignored_codes,
        ).sized(options.threads_num, options.capacity, options.tuning_bytes)
        return spec._replace(ordered=spec.has_several_threads)


def _leaving(state: PassState, *reasons: str) -> PassState:
    return state.reporting(left_alone=(*state.report.left_alone, *reasons))
