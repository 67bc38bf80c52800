"""Carries a rewrite over to a live `tf.Graph`, whose exports stay the user's own graph."""

from __future__ import annotations

from typing import Any, Sequence

from graph_opt.compat import live_graph
from graph_opt.export.users_graph import export_users_graph
from graph_opt.graph.rewrite import OUTPUT_SHAPES, Rewrite
from graph_opt.graph.undo import undo_of


def apply_to_graph(graph: Any, before: Any, rewrites: Sequence[Rewrite]) -> None:
    """Adds the rewrites' nodes to a live graph and moves its edges, one rewrite after the other.

    Args:
      graph: A `tf.Graph`, finalized or not.
      before: Its GraphDef, as sessions run it.
      rewrites: What was planned for that GraphDef.
    """
    if rewrites:
        export_users_graph(graph, undo_of(before, rewrites))
    with live_graph.unfinalized(graph):
        for rewrite in rewrites:
            _apply(graph, rewrite)


def _apply(graph: Any, rewrite: Rewrite) -> None:
    if rewrite.nodes:
        live_graph.add_nodes(graph, rewrite.nodes)
    for edit in rewrite.inputs:
        live_graph.set_input(graph, edit.node, edit.slot, edit.tensor)
    for control in rewrite.controls:
        operation = graph.get_operation_by_name(control.node)
        sources = [source.name for source in operation.control_inputs]
        live_graph.set_control_inputs(graph, control.node, control.apply(sources))
    for attribute in rewrite.attributes:
        if attribute.key != OUTPUT_SHAPES:  # a live graph has inferred them
            live_graph.set_attribute(graph, attribute.node, attribute.key, attribute.value)
