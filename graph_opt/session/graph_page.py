"""The report of a session's graph as a page."""

from __future__ import annotations

from typing import Any, Sequence

from graph_opt.compat.callables import raw_session
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.config.options import session_options
from graph_opt.passes.graph_reports import report_of_lookups
from graph_opt.passes.translation import UNCHANGED
from graph_opt.report_page.graph_report import GraphReport
from graph_opt.report_page.page_content import PageSource
from graph_opt.runtime.trace import trace_of
from graph_opt.session.graph_records import report_of, translation_of


def graph_report(session: Any, title: str = "session") -> GraphReport:
    """What became of a session's graph, before and after, as a page for a browser or a notebook.

    Args:
      session: A session, monitored or not. Its graph is rewritten at its first run.
      title: What the page calls it.

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
    return page_of_graph(raw.graph, title, tuple(trace_of(raw).records()))


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
    running = running_graph_def(graph, add_shapes=True)
    report = report_of(graph) or report_of_lookups(running, session_options(None))
    more = {"steps": tuple(steps), "notes": tuple(notes)}
    if translation_of(graph) is UNCHANGED:
        return GraphReport(PageSource(title, report, running, **more))
    built = graph.as_graph_def(add_shapes=True)
    return GraphReport(PageSource(title, report, built, running, **more))
