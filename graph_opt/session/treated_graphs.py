"""Which live graphs were optimized or deliberately left alone, and what is known of each."""

from __future__ import annotations

import weakref
from typing import Any, MutableMapping, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.passes.translation import UNCHANGED, Translation
from graph_opt.reporting.report import Report


class TreatedGraph(NamedTuple):
    """One graph.

    Attributes:
      translation: What its names stand for; `UNCHANGED` where it was left alone.
      report: What was found and done, for people.
      was_optimized: Whether the passes worked on it, be it that they found nothing to do.
    """

    translation: Translation
    report: Report
    was_optimized: bool


_treated: MutableMapping[Any, TreatedGraph] = weakref.WeakKeyDictionary()


def note_optimized(graph: Any, translation: Translation, report: Report) -> None:
    """Remembers it for as long as the graph lives."""
    _treated[graph] = TreatedGraph(translation, report, was_optimized=True)


def note_left_alone(graph: Any, report: Report) -> None:
    """Remembers why; a session with another config may still optimize the graph."""
    _treated[graph] = TreatedGraph(UNCHANGED, report, was_optimized=False)


def was_optimized(graph: Any) -> bool:
    """Whether the graph was optimized, rather than left alone for a reason in its report."""
    treated = _treated.get(graph)
    return treated is not None and treated.was_optimized


def translation_of(graph: Any) -> Translation:
    """What the graph's names stand for."""
    treated = _treated.get(graph)
    return UNCHANGED if treated is None else treated.translation


def report_of(graph: Optional[Any] = None) -> Optional[Report]:
    """The report of the last optimization of a graph (the default graph if None), if any."""
    treated = _treated.get(tf.get_default_graph() if graph is None else graph)
    return None if treated is None else treated.report
