"""What a plan is made from: a graph, and what the passes make of it."""

from __future__ import annotations

import dataclasses
from typing import Any, FrozenSet, Tuple

from graph_opt.compat.stateful_ops import VARIABLES
from graph_opt.config.options import SessionOptions, session_options
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.rewrite import apply_to_graph_def
from graph_opt.graph.shared_views import view_of
from graph_opt.graph.view import GraphView
from graph_opt.inspect.shapes import add_missing_shapes
from graph_opt.passes.graph_reports import is_rewritten
from graph_opt.passes.optimize import plan
from graph_opt.passes.tasks import task_of
from graph_opt.reporting.report import Report


@dataclasses.dataclass(frozen=True)
class PlannedGraph:
    """What a plan is made from.

    Attributes:
      graph_def: The graph, with static shapes.
      rewritten: What passes made of it; None if they changed nothing.
      report: What they found.
      fetches: Names of nodes or tensors that a step fetches; empty: found in the graph.
      rewritten_fetches: The same in the rewritten graph, where they have other names there.
    """

    graph_def: Any
    rewritten: Any = None
    report: Report = dataclasses.field(default_factory=Report)
    fetches: Tuple[str, ...] = ()
    rewritten_fetches: Tuple[str, ...] = ()


def planned_graph(graph_def: Any, config: Any, fetches: Tuple[str, ...] = ()) -> PlannedGraph:
    """Runs the passes as if all parameter servers had loaded graph_opt's ops.

    A graph that was rewritten before is taken as it is.

    Args:
      graph_def: The graph, with static shapes.
      config: A graph_opt or stock ConfigProto.
      fetches: What a step fetches; empty: found in the graph.

    Raises:
      InvalidArgumentError: As `optimize_graph_def`.
    """
    options = session_options(config)
    if is_rewritten(graph_def) or not options.ask_for_anything:
        return PlannedGraph(graph_def, fetches=fetches)
    with collection_paused():
        planned = rewritten_graph(graph_def, options)
        if planned.rewritten is not None:
            add_missing_shapes(planned.rewritten)
        return dataclasses.replace(planned, fetches=fetches)


def rewritten_graph(graph_def: Any, options: SessionOptions) -> PlannedGraph:
    """What passes make of a graph if all parameter servers had loaded graph_opt's ops.

    Nodes that the rewrite adds have no static shapes.

    Raises:
      InvalidArgumentError: As `optimize_graph_def`.
    """
    with collection_paused():
        tasks = _tasks_of_variables(view_of(graph_def))
        planned = plan(graph_def, dataclasses.replace(options, servers_with_ops=tasks))
        if not planned.rewrites:
            return PlannedGraph(graph_def, None, planned.report)
        rewritten = apply_to_graph_def(graph_def, *planned.rewrites)
        return PlannedGraph(graph_def, rewritten, planned.report)


def _tasks_of_variables(view: GraphView) -> FrozenSet[str]:
    found = (task_of(view.device(name)) for name in view.of_op(*sorted(VARIABLES)))
    return frozenset(task for task in found if task is not None)
