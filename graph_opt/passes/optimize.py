"""GraphDef and options in, rewritten GraphDef and report out."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from graph_opt.config.messages import SessionConfig
from graph_opt.config.micro_batches import BATCHES, EITHER
from graph_opt.config.options import SessionOptions, session_options
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.rewrite import Rewrite, apply_to_graph_def
from graph_opt.ops.library import register_ops
from graph_opt.passes.fusion.compact_gradients import compact_gradients
from graph_opt.passes.fusion.dense_categories import dense_categories
from graph_opt.passes.fusion.fuse_group_embedding import fuse_group_embedding
from graph_opt.passes.fusion.unknown_keys import read_unknown_keys
from graph_opt.passes.meet_other_ranks import meet_other_ranks
from graph_opt.passes.micro_batches.micro_batches import micro_batches
from graph_opt.passes.name_map import UNCHANGED, NameMap
from graph_opt.passes.parse_examples import parse_examples
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.pipeline.pipeline_dense import pipeline_dense
from graph_opt.passes.prefetch.async_embedding import async_embedding
from graph_opt.passes.prefetch.exact.exact_rows import exact_rows
from graph_opt.passes.prefetch.smart_stage import smart_stage
from graph_opt.passes.prefetch.staleness import note_updates, sample_lookups
from graph_opt.passes.protect_gathers import protect_gathers
from graph_opt.passes.shard_tables.shard_tables import shard_tables
from graph_opt.passes.summed_batches.summed_batches import summed_batches
from graph_opt.passes.summed_batches.turns import take_turns
from graph_opt.passes.transfers.pack_dense import pack_dense
from graph_opt.reporting.outcomes import StageReport
from graph_opt.reporting.report import MICRO_BATCHES, Report


class Pass(NamedTuple):
    """One pass.

    Attributes:
      run: State and options in, state out; pure, and returns the same state if the options do not
        ask for it.
      reason: Why it is in this place of the order.
    """

    run: Callable[[PassState, SessionOptions], PassState]
    reason: str


PASSES = (
    Pass(summed_batches, "first: to all others, the lookups of further batches are like any other"),
    Pass(shard_tables, "early: others then find exchanges, and updates of this rank's rows"),
    Pass(compact_gradients, "early: the updates of such gradients are then fused like any other"),
    Pass(dense_categories, "early: lookups that are fused then take dense ids"),
    Pass(read_unknown_keys, "early: fused lookups then make no rows either"),
    Pass(fuse_group_embedding, "early: it needs forward, backward and update in one region"),
    Pass(parse_examples, "early: stages then parse by the op that takes the parsers' place"),
    Pass(exact_rows, "between: it needs fused lookups and updates, and decides which may move"),
    Pass(note_updates, "between: it needs updates, and what it adds to lookups moves with them"),
    Pass(async_embedding, "moves lookups, fused or not; packs what crosses between tasks"),
    Pass(sample_lookups, "then: it reads what crosses to main"),
    Pass(smart_stage, "where no lookup moved, which takes along what stands before the variables"),
    Pass(meet_other_ranks, "late: what ran ahead meets them in its own turns"),
    Pass(micro_batches, "late: lookups, fused or ahead, stay whole, and the rest is divided"),
    Pass(take_turns, "late: what runs ahead does so for all batches of a step"),
    Pass(pack_dense, "late: it packs what main still exchanges with servers"),
    Pass(pipeline_dense, "then: it moves messages from steps of main to a stage"),
    Pass(protect_gathers, "last: lookups that are still TensorFlow's own and stay in main"),
)


_BATCHES_INSTEAD = MICRO_BATCHES + (
    "rows of a batch depend on each other here, so each step trains on {} batches by the sum of "
    "their gradients, as in DeepRec, and nothing runs ahead of it; micro_batch_rule: 'parts' keeps "
    "to one batch, 'batches' lets lookups run ahead"
)


@dataclasses.dataclass(frozen=True)
class OptimizedGraph:
    """What `optimize_graph_def` returns.

    Attributes:
      graph_def: The rewritten GraphDef, or the input itself if there was nothing to do.
      stages: The prefetch stages that were added.
      report: What was found, fused and moved, and what was left unchanged.

    Example:
      >>> optimized = graph_opt.optimize_graph_def(graph.as_graph_def(add_shapes=True), config)
      >>> tf.io.write_graph(optimized.graph_def, "rewritten", "graph.pb", as_text=False)
    """

    graph_def: Any
    stages: Tuple[StageReport, ...]
    report: Report


def optimize_graph_def(graph_def: Any, config: Optional[SessionConfig]) -> OptimizedGraph:
    """Fuses and prefetches the embedding lookups of a GraphDef, as the config asks.

    Args:
      graph_def: A GraphDef, which is not changed. Write it with `as_graph_def(add_shapes=True)`,
        since static shapes matter.
      config: A graph_opt or stock ConfigProto, or None.

    Returns:
      The rewritten graph, its stages and the report. The same graph and options always give the
      same bytes.

    Raises:
      InvalidArgumentError: The options are invalid; the graph has lookups on batches of an iterator
        or queue but no IO stage, and `infer_io_stage` is off; or it is not a valid GraphDef.
      FailedPreconditionError: The graph was rewritten before.

    Example:
      >>> config = graph_opt.ConfigProto()
      >>> config.graph_options.optimizer_options.do_async_embedding = True
      >>> options = config.graph_options.optimizer_options.async_embedding_options
      >>> options.threads_num, options.capacity = 1, 2
      >>> optimized = graph_opt.optimize_graph_def(graph.as_graph_def(add_shapes=True), config)
      >>> print(optimized.report)
    """
    options = session_options(config)
    with collection_paused():
        planned = plan(graph_def, options)
        if planned.rewrites:
            graph_def = apply_to_graph_def(graph_def, *planned.rewrites)
    return OptimizedGraph(graph_def, planned.report.stages, planned.report)


@dataclasses.dataclass(frozen=True)
class Planned:
    """What the passes would do to a graph.

    Attributes:
      rewrites: To be applied one after the other, each verified; empty if there is nothing to do.
      name_map: What the names of the given graph stand for in the rewritten one.
      report: What was found, fused and moved, and what was left unchanged, for people.
    """

    rewrites: Tuple[Rewrite, ...]
    name_map: NameMap
    report: Report


def plan(graph_def: Any, options: SessionOptions) -> Planned:
    """Runs the passes; raises the same errors as `optimize_graph_def`."""
    if not options.ask_for_anything:
        return Planned((), UNCHANGED, Report(warnings=tuple(options.warnings)))
    register_ops()  # Our ops must be registered before their dtypes are looked up.
    planned = _planned(graph_def, options)
    wanted = options.micro_batches
    if wanted is None or wanted.rule != EITHER or not _has_mixed_rows(planned.report):
        return planned
    # No stage may collect the batches of a step, for steps that do not train, such as those of an
    # evaluation in the same graph, would then take as many and see the first of them alone.
    batches = dataclasses.replace(
        options,
        micro_batches=dataclasses.replace(wanted, rule=BATCHES),
        async_embedding=None,
        smart_stage=None,
    )
    other = _planned(graph_def, batches)
    if not other.report.micro_batches:
        return planned
    warnings = (*other.report.warnings, _BATCHES_INSTEAD.format(wanted.number))
    report = dataclasses.replace(other.report, warnings=warnings)
    return dataclasses.replace(other, report=report)


def _has_mixed_rows(report: Report) -> bool:
    return any(refusal["code"] == "rows_mixed" for refusal in report.refusals)


def _planned(graph_def: Any, options: SessionOptions) -> Planned:
    started = time.perf_counter()
    state = PassState.of(graph_def)
    moved_by: Dict[Tuple[str, int], Tuple[str, ...]] = {}
    for one in PASSES:
        before = len(state.rewrites)
        state = one.run(state, options)
        for edit in [edit for rewrite in state.rewrites[before:] for edit in rewrite.inputs]:
            place = edit.node, edit.slot
            moved_by[place] = (*moved_by.get(place, ()), one.run.__name__)
    report = dataclasses.replace(
        state.report,
        warnings=tuple(options.warnings) + state.report.warnings,
        seconds=time.perf_counter() - started,
        replaced=dict(state.name_map.substitutes),
        fetches=dict(state.name_map.taken),
        hidden=state.name_map.prefetched,
    )
    name_map = dataclasses.replace(state.name_map, moved_by=moved_by)
    return Planned(state.rewrites, name_map, report)
