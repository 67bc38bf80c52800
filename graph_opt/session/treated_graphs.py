"""Which live graphs were optimized or deliberately left alone, and what is known of each."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any, MutableMapping, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.config.options import SessionOptions
from graph_opt.passes.translation import UNCHANGED, Translation
from graph_opt.reporting.report import Report
from graph_opt.reporting.warnings_given import warnings_about


class TreatedGraph(NamedTuple):
    """One graph.

    Attributes:
      translation: What its names stand for; `UNCHANGED` where it was left alone.
      report: What was found and done, for people.
      asked: The options of who had it treated.
      rewritten: Whether it was rewritten: once is enough.
      version: The graph's version then; None where it will not be looked at again.
    """

    translation: Translation
    report: Report
    asked: SessionOptions
    rewritten: bool
    version: Optional[int] = None


class _Latest:
    def __init__(self) -> None:
        self.report: Optional[Report] = None


_latest = _Latest()
_treated: MutableMapping[Any, TreatedGraph] = weakref.WeakKeyDictionary()


def note_rewritten(
    graph: Any, translation: Translation, report: Report, asked: SessionOptions
) -> None:
    """Remembers it for as long as the graph lives."""
    _note(graph, TreatedGraph(translation, report, asked, rewritten=True))


def note_unchanged(graph: Any, report: Report, asked: SessionOptions, final: bool = False) -> None:
    """Remembers why nothing was done; a later session may still do it.

    Args:
      graph: The graph.
      report: Says why.
      asked: What was asked for.
      final: Whether nothing is done either when the graph has grown and the same is asked again.
    """
    version = None if final else graph.version
    _note(graph, TreatedGraph(UNCHANGED, report, asked, False, version))


def is_settled(graph: Any, asked: SessionOptions) -> bool:
    """Whether there is nothing to do to the graph for a session that asks for this."""
    treated = _treated.get(graph)
    if treated is None:
        return False
    if treated.rewritten:
        return True
    return treated.asked == asked and treated.version in (None, graph.version)


def was_rewritten_otherwise(graph: Any, asked: SessionOptions) -> bool:
    """Whether the graph was rewritten with other options than these."""
    treated = _treated.get(graph)
    return treated is not None and treated.rewritten and _edits(treated.asked) != _edits(asked)


def _edits(options: SessionOptions) -> Any:
    return options.async_embedding, options.group_embedding


def is_left_alone(graph: Any) -> bool:
    """Whether a session asked for something, and nothing was done to the graph."""
    return graph in _treated and not _treated[graph].rewritten


def translation_of(graph: Any) -> Translation:
    """What the graph's names stand for."""
    treated = _treated.get(graph)
    return UNCHANGED if treated is None else treated.translation


def _note(graph: Any, treated: TreatedGraph) -> None:
    _treated[graph] = treated
    _latest.report = treated.report


def report_of(graph: Optional[Any] = None) -> Optional[Report]:
    """What was fused and moved in a graph, what was not, and why.

    Args:
      graph: A `tf.Graph`. None: the default graph, or where nothing was asked of that the graph
        that was treated last; so the report is there after an Estimator, which makes graphs of its
        own, is done.

    Returns:
      The report, None where there is none. `graph_opt.session_reports()` has those of all sessions.
    """
    wanted = tf.get_default_graph() if graph is None else graph
    if wanted not in _treated:
        return _latest.report if graph is None else None
    report = _treated[wanted].report
    told = [text for text in warnings_about(wanted) if text not in report.warnings]
    return dataclasses.replace(report, warnings=(*report.warnings, *told))
