"""Records of the live graphs that were optimized or deliberately left unchanged."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any, List, MutableMapping, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.config.options import SessionOptions
from graph_opt.passes.name_map import UNCHANGED, NameMap
from graph_opt.reporting.read_again import read_again_text
from graph_opt.reporting.refreshed import refreshed_of
from graph_opt.reporting.report import Report
from graph_opt.reporting.staleness import staleness_of
from graph_opt.reporting.tuned_stages import tuned_stages
from graph_opt.reporting.warnings_given import warnings_about
from graph_opt.sharding.merged_updates import merged_updates_text


class GraphRecord(NamedTuple):
    """What is known about one graph.

    Attributes:
      name_map: What its names stand for; `UNCHANGED` if it was left unchanged.
      report: What was found and done, for people.
      asked: The options that were asked for.
      rewritten: Whether it was rewritten, which happens at most once.
      version: The graph's version at the time; None if later versions change nothing.
    """

    name_map: NameMap
    report: Report
    asked: SessionOptions
    rewritten: bool
    version: Optional[int] = None


class _Latest:
    def __init__(self) -> None:
        self.report: Optional[Report] = None


_latest = _Latest()
_records: MutableMapping[Any, GraphRecord] = weakref.WeakKeyDictionary()
_stopped: List[SessionOptions] = []


def note_rewritten(graph: Any, name_map: NameMap, report: Report, asked: SessionOptions) -> None:
    """Records a rewritten graph for as long as it lives."""
    _note(graph, GraphRecord(name_map, report, asked, rewritten=True))


def note_grown(graph: Any, name_map: NameMap) -> None:
    """Records what the names of a rewritten graph stand for after it has grown."""
    _records[graph] = _records[graph]._replace(name_map=name_map)


def note_stopped(graph: Any) -> None:
    """Records that all steps of a rewritten graph run what its user built from now on."""
    record = _records[graph]
    note_grown(graph, dataclasses.replace(record.name_map, is_stopped=True))
    if record.asked not in _stopped:
        _stopped.append(record.asked)


def was_stopped(asked: SessionOptions) -> bool:
    """Whether this process has stopped a graph of these options, even one that is gone."""
    return asked in _stopped


def note_unchanged(graph: Any, report: Report, asked: SessionOptions, final: bool = False) -> None:
    """Records why a graph was left unchanged; a later session may still optimize it.

    Args:
      graph: The graph.
      report: Says why.
      asked: What was asked for.
      final: Whether the decision holds for the same options even after the graph has grown.
    """
    version = None if final else graph.version
    _note(graph, GraphRecord(UNCHANGED, report, asked, False, version))


def is_settled(graph: Any, asked: SessionOptions) -> bool:
    """Whether the graph needs no work for a session that asks for these options."""
    record = _records.get(graph)
    if record is None:
        return False
    if record.rewritten:
        return True
    return record.asked == asked and record.version in (None, graph.version)


def was_rewritten_differently(graph: Any, asked: SessionOptions) -> bool:
    """Whether the graph was rewritten, and not by what these options ask for."""
    record = _records.get(graph)
    if record is None or not record.rewritten:
        return False
    pairs = zip(asked.requests, record.asked.requests)
    return any(wanted not in (None, given) for wanted, given in pairs)


def is_left_alone(graph: Any) -> bool:
    """Whether an optimization was asked for but the graph was left unchanged."""
    return graph in _records and not _records[graph].rewritten


def asked_of(graph: Any) -> Optional[SessionOptions]:
    """What a session on this graph asked for; None if none did."""
    return _records[graph].asked if graph in _records else None


def name_map_of(graph: Any) -> NameMap:
    """What the graph's names stand for."""
    record = _records.get(graph)
    return UNCHANGED if record is None else record.name_map


def sample_steps_of(graph: Any) -> int:
    """Of how many training steps one tells how old its rows are; 0: none does."""
    asked = asked_of(graph)
    wanted = asked.async_embedding if asked is not None else None
    return 0 if wanted is None else wanted.staleness.sample_steps


def _note(graph: Any, record: GraphRecord) -> None:
    _records[graph] = record
    _latest.report = record.report


def report_of(graph: Optional[Any] = None) -> Optional[Report]:
    """Returns what was fused and moved in a graph, what was not, and why.

    Args:
      graph: A `tf.Graph`. None means the default graph or, if that has no report, the graph that
        was optimized last: an Estimator, for one, builds its own graphs.

    Returns:
      The report, or None if there is none. `graph_opt.session_reports()` returns the reports of all
      sessions.

    Example:
      >>> session.run(train_op)
      >>> print(graph_opt.report())
    """
    wanted = tf.get_default_graph() if graph is None else graph
    report = report_of_passes(wanted)
    merged = tuple(merged_updates_text(wanted))
    if report is None:  # of a session of TensorFlow's own, if there is any
        latest = _latest.report if graph is None else None
        return Report(changes=merged) if merged else latest
    return dataclasses.replace(report, changes=(*report.changes, *merged))


def report_of_passes(graph: Any) -> Optional[Report]:
    """The same, without what becomes of updates once a session runs them; None if there is none."""
    if graph not in _records:
        return None
    report = _records[graph].report
    told = [text for text in warnings_about(graph) if text not in report.warnings]
    return dataclasses.replace(
        report,
        warnings=(*report.warnings, *told),
        tuned=tuned_stages(graph),
        read_again=read_again_text(graph),
        staleness=staleness_of(graph),
        refreshed=refreshed_of(graph),
    )
