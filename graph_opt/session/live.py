"""Where a rewrite is applied to a live `tf.Graph`."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Tuple

from graph_opt.compat import live_graph, tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.config.options import SessionOptions, session_options
from graph_opt.export.users_graph import export_users_graph
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.undo import undo_of
from graph_opt.inspect.dump import dump_graph, is_wanted
from graph_opt.passes.optimize import plan
from graph_opt.passes.translation import Translation
from graph_opt.reporting.report import Report
from graph_opt.session.graph_use import refuse_if_run
from graph_opt.session.server_options import with_server_ops
from graph_opt.session.treated_graphs import note_rewritten, note_unchanged


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
      FailedPreconditionError: the graph was rewritten before, or has been run; or a parameter
        server lacks graph_opt's ops although `require_server_ops` is set.
      UnavailableError: a parameter server does not answer.

    Example:
      >>> report = graph_opt.optimize_graph(tf.get_default_graph(), config)
      >>> print(report)
    """
    options = session_options(config)
    if not options.ask_for_anything:
        return Report(warnings=options.warnings)
    refuse_if_run(graph)
    return treat(graph, Treatment(options, options), target)


@dataclasses.dataclass(frozen=True)
class Treatment:
    """What is done to a graph.

    Attributes:
      options: What is to be fused and moved.
      asked: What a config asked for; more, where a graph of this kind does not get all of it.
      reasons: Why it does not.
      final: Whether a graph that stays as it is does so also when it has grown.
    """

    options: SessionOptions
    asked: SessionOptions
    reasons: Tuple[str, ...] = ()
    final: bool = False


def treat(graph: Any, treatment: Treatment, target: str = "") -> Report:
    """Does it to a live graph, and notes the report."""
    report, translation = _rewritten(graph, treatment.options, target)
    report = dataclasses.replace(report, left_alone=treatment.reasons)
    if translation is None:
        note_unchanged(graph, report, treatment.asked, treatment.final)
    else:
        note_rewritten(graph, translation, report, treatment.asked)
    tf.logging.info("graph_opt: %s", report)
    return report


def _rewritten(
    graph: Any, options: SessionOptions, target: str
) -> Tuple[Report, Optional[Translation]]:
    """The report, and what names stand for now; None for a graph that stays as it is."""
    if not options.ask_for_anything:
        return Report(warnings=options.warnings), None
    options = with_server_ops(graph, options, target)
    with collection_paused():
        before = running_graph_def(graph, add_shapes=True)
        planned = plan(before, options)
    if is_wanted():
        dump_graph(running_graph_def(graph), "before")
    if planned.rewrites:
        export_users_graph(graph, undo_of(before, planned.rewrites))
    with live_graph.unfinalized(graph):
        for rewrite in planned.rewrites:
            apply_to_graph(graph, rewrite)
    if is_wanted():
        dump_graph(running_graph_def(graph), "after")
    return planned.report, planned.translation if planned.rewrites else None


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
