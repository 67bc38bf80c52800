"""Where a rewrite is applied to a live `tf.Graph`."""

from __future__ import annotations

from typing import Any, Sequence

from graph_opt.compat import live_graph, tf
from graph_opt.config.options import SessionOptions, session_options
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.rewrite import Rewrite
from graph_opt.inspect.dump import dump_graph, is_wanted
from graph_opt.passes.optimize import plan
from graph_opt.reporting.report import Report
from graph_opt.session.graph_use import refuse_if_run
from graph_opt.session.server_options import with_server_ops
from graph_opt.session.treated_graphs import note_left_alone, note_optimized


def optimize_graph(graph: Any, config: Any, target: str = "") -> Report:
    """Fuses and prefetches the embedding lookups of a live graph, as the config asks, in place.

    The same plan as `optimize_graph_def`, applied by adding nodes and moving edges. Call it once,
    when the model is complete (with backward and optimizer) and before a session has run it.
    With `ASYNC_EMBEDDING_DUMP_GRAPH=true` in the environment the graph before and after is written
    to the working directory.

    Args:
      graph: A `tf.Graph`.
      config: A graph_opt or stock ConfigProto, or None.
      target: The target of the session that will run the graph. Parameter servers are asked
        through it whether they have graph_opt's ops; without it their tables' lookups are not
        fused, unless the option `require_server_ops` says that they have them.

    Returns:
      What was found, moved and left alone.

    Raises:
      InvalidArgumentError: options that make no sense, or lookups without an IO stage.
      FailedPreconditionError: the graph is finalized, was rewritten before, or has been run; or
        a parameter server lacks graph_opt's ops although `require_server_ops` is set.
      UnavailableError: a parameter server does not answer.

    Example:
      >>> report = graph_opt.optimize_graph(tf.get_default_graph(), config)
      >>> print(report)
    """
    return optimize_with(graph, session_options(config), target)


def optimize_with(graph: Any, options: SessionOptions, target: str = "") -> Report:
    """`optimize_graph` with options that were read already."""
    if options.async_embedding is None and options.group_embedding is None:
        return Report(warnings=tuple(options.warnings))
    refuse_if_run(graph)
    _refuse_finalized(graph)
    options = with_server_ops(graph, options, target)
    with collection_paused():
        planned = plan(graph.as_graph_def(add_shapes=True), options)
    if is_wanted():
        dump_graph(graph.as_graph_def(), "before")
    for rewrite in planned.rewrites:
        apply_to_graph(graph, rewrite)
    if is_wanted():
        dump_graph(graph.as_graph_def(), "after")
    note_optimized(graph, planned.translation, planned.report)
    tf.logging.info("graph_opt: %s", planned.report)
    return planned.report


def leave_alone(graph: Any, reasons: Sequence[str]) -> Report:
    """Notes, as the graph's report, why a session did not optimize it.

    A later session with another config, or `optimize_graph`, still may.
    """
    report = Report(warnings=tuple(reasons))
    note_left_alone(graph, report)
    tf.logging.info("graph_opt: %s", report)
    return report


def apply_to_graph(graph: Any, rewrite: Rewrite) -> None:
    """Adds the rewrite's nodes to a live graph and moves its edges."""
    if rewrite.nodes:
        live_graph.add_nodes(graph, rewrite.nodes)
    for edit in rewrite.inputs:
        live_graph.set_input(graph, edit.node, edit.slot, edit.tensor)
    for control in rewrite.controls:
        operation = graph.get_operation_by_name(control.node)
        sources = [source.name for source in operation.control_inputs]
        live_graph.set_control_inputs(graph, control.node, control.apply(sources))


def _refuse_finalized(graph: Any) -> None:
    if graph.finalized:
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            "the graph is finalized and cannot be optimized any more: call "
            "graph_opt.optimize_graph(graph, config) before graph.finalize(), or let "
            "graph_opt.train.MonitoredTrainingSession finalize it",
        )
