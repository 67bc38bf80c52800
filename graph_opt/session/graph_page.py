"""The report of a session's graph as a page."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Mapping, Optional, Sequence, Tuple

from graph_opt.compat.callables import raw_session
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.config.options import session_options
from graph_opt.cost.assumptions import Assumptions, NumberFor
from graph_opt.cost.cost_plan import cost_plan
from graph_opt.cost.planned_graph import PlannedGraph
from graph_opt.passes.graph_reports import report_of_lookups
from graph_opt.passes.name_map import UNCHANGED
from graph_opt.report_page.graph_report import GraphReport
from graph_opt.report_page.page_content import PageSource
from graph_opt.runtime.trace import trace_of
from graph_opt.session.graph_records import name_map_of, report_of


def graph_report(
    session: Any,
    title: str = "session",
    batch: Optional[int] = None,
    ids_per_row: Optional[Mapping[str, float]] = None,
) -> GraphReport:
    """What became of a session's graph, before and after, as a page for a browser or a notebook.

    Args:
      session: A session, monitored or not. Its graph is rewritten at its first run.
      title: What the page calls it.
      batch: Rows of a batch; with it, the report tells what a step costs, as `graph-opt plan` does.
      ids_per_row: For that, the ids that a row has on average, by a pattern of tables' names.

    Returns:
      The report: `save("report.html")` writes the page, a notebook shows it. The timeline has the
      steps that `graph_opt.step_trace(session)` recorded.

    Example:
      >>> with graph_opt.train.MonitoredTrainingSession(config=config) as session:
      ...   for _ in range(100):
      ...     with graph_opt.step_trace(session).main_step():
      ...       session.run(train_op)
      ...   graph_opt.graph_report(session).save("report.html")
    """
    raw = raw_session(session)
    steps = tuple(trace_of(raw).records())
    source = _source_of(raw.graph, title, steps)
    if batch is None:
        return GraphReport(source)
    told = [
        NumberFor(re.compile(pattern), number) for pattern, number in (ids_per_row or {}).items()
    ]
    planned = PlannedGraph(source.graph_def, source.rewritten, source.report)
    cost = cost_plan(planned, Assumptions(batch, tuple(told)))
    return GraphReport(dataclasses.replace(source, cost=cost))


def page_of_graph(
    graph: Any, title: str, steps: Sequence[Any] = (), notes: Sequence[str] = ()
) -> GraphReport:
    """The same of a graph whose sessions may have ended.

    Args:
      graph: A live graph.
      title: What the page calls it.
      steps: `StepRecord`s of a session on it.
      notes: What else the page says of the run, a line each.
    """
    return GraphReport(_source_of(graph, title, tuple(steps), tuple(notes)))


def _source_of(
    graph: Any, title: str, steps: Tuple[Any, ...], notes: Tuple[str, ...] = ()
) -> PageSource:
    running = running_graph_def(graph, add_shapes=True)
    report = report_of(graph) or report_of_lookups(running, session_options(None))
    if name_map_of(graph) is UNCHANGED:
        return PageSource(title, report, running, steps=steps, notes=notes)
    built = graph.as_graph_def(add_shapes=True)
    return PageSource(title, report, built, running, steps, notes)
