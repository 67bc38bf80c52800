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
    """

    translation: Translation
    report: Report


_treated: MutableMapping[Any, TreatedGraph] = weakref.WeakKeyDictionary()


def note_treated(graph: Any, translation: Translation, report: Report) -> None:
    """Remembers it for as long as the graph lives."""
    _treated[graph] = TreatedGraph(translation, report)


def is_treated(graph: Any) -> bool:
    """Whether the graph was optimized, or left alone for a reason in its report."""
    return graph in _treated


def translation_of(graph: Any) -> Translation:
    """What the graph's names stand for."""
    treated = _treated.get(graph)
    return UNCHANGED if treated is None else treated.translation


def report_of(graph: Optional[Any] = None) -> Optional[Report]:
    """The report of the last optimization of a graph (the default graph if None), if any."""
    treated = _treated.get(tf.get_default_graph() if graph is None else graph)
    return None if treated is None else treated.report
