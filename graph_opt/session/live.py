"""Optimizes a live `tf.Graph` in place."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.config.messages import SessionConfig
from graph_opt.config.options import SessionOptions, session_options
from graph_opt.graph.collection import collection_paused
from graph_opt.inspect.dump import dump_graph, is_wanted
from graph_opt.passes.name_map import NameMap
from graph_opt.passes.optimize import plan
from graph_opt.reporting.report import Report
from graph_opt.session.features.listed import features_in
from graph_opt.session.features.sharded_tables import with_ranks
from graph_opt.session.graph_records import note_rewritten, note_unchanged
from graph_opt.session.graph_use import refuse_if_run
from graph_opt.session.late_nodes import watch_growth
from graph_opt.session.planned_graph import planned_graph_def
from graph_opt.session.rewritten_graph import apply_to_graph
from graph_opt.session.server_options import with_server_ops


def optimize_graph(graph: Any, config: Optional[SessionConfig], target: str = "") -> Report:
    """Fuses and prefetches the embedding lookups of a live graph in place, as the config asks.

    Makes the same changes as `optimize_graph_def`, by adding nodes and moving edges. Call it once,
    when the model is complete (with gradients and optimizer) and before a session has run it.
    With `ASYNC_EMBEDDING_DUMP_GRAPH=true` in the environment, the graph is written to the working
    directory before and after.

    Args:
      graph: A `tf.Graph`.
      config: A graph_opt or stock ConfigProto, or None.
      target: The target of the session that will run the graph. Parameter servers are asked
        through it whether they have graph_opt's ops; without it, lookups in their tables are not
        fused unless the option `require_server_ops` vouches for the ops.

    Returns:
      What was found, fused and moved, and what was left unchanged.

    Raises:
      InvalidArgumentError: The options are invalid, or there are lookups but no IO stage.
      FailedPreconditionError: The graph was rewritten before or has been run, or a parameter
        server lacks graph_opt's ops although `require_server_ops` is set.
      UnavailableError: A parameter server does not answer.

    Example:
      >>> report = graph_opt.optimize_graph(tf.get_default_graph(), config)
      >>> print(report)
    """
    options = session_options(config, target)
    if not options.ask_for_anything:
        return Report(warnings=options.warnings)
    refuse_if_run(graph)
    report = optimize_live_graph(graph, OptimizationRequest(options, options), target)
    tf.logging.info("graph_opt: %s", report)  # Of a session's graph, the session tells.
    return report


@dataclasses.dataclass(frozen=True)
class OptimizationRequest:
    """What to do to a graph.

    Attributes:
      options: What is to be fused and moved.
      asked: What the config asked for, which may be more than a graph of this kind gets.
      reasons: Why it does not get all of it.
      final: Whether a decision to leave the graph unchanged holds even after the graph has grown.
    """

    options: SessionOptions
    asked: SessionOptions
    reasons: Tuple[str, ...] = ()
    final: bool = False


def optimize_live_graph(graph: Any, request: OptimizationRequest, target: str = "") -> Report:
    """Optimizes a live graph in place and records the report."""
    report, name_map = _rewritten(graph, request.options, target)
    report = dataclasses.replace(report, left_alone=(*request.reasons, *report.left_alone))
    if name_map is None:
        note_unchanged(graph, report, request.asked, request.final)
    else:
        note_rewritten(graph, name_map, report, request.asked)
        watch_growth(graph)
        for feature, part in features_in(name_map):
            feature.graph_rewritten(graph, part)
    return report


def _rewritten(
    graph: Any, options: SessionOptions, target: str
) -> Tuple[Report, Optional[NameMap]]:
    """The report, and what names stand for after the rewrites; None if there were none."""
    if not options.ask_for_anything:
        return Report(warnings=options.warnings), None
    options = with_ranks(with_server_ops(graph, options, target))
    if options.async_embedding is not None:
        known = dataclasses.replace(
            options.async_embedding, is_served=bool(target), is_sampled=True
        )
        options = dataclasses.replace(options, async_embedding=known)
    with collection_paused():
        before = planned_graph_def(graph)
        planned = plan(before, options)
    if is_wanted():
        dump_graph(running_graph_def(graph), "before")
    apply_to_graph(graph, before, planned.rewrites)
    if is_wanted():
        dump_graph(running_graph_def(graph), "after")
    return planned.report, planned.name_map if planned.rewrites else None
