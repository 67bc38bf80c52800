"""Everything that a page shows, as plain data."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from graph_opt.graph.collection import collection_paused
from graph_opt.graph.shared_views import view_of
from graph_opt.graph.view import GraphView
from graph_opt.ops.stage_nodes import BUFFER_PUT, BUFFER_TAKE
from graph_opt.ops.stage_spec import spec_of
from graph_opt.passes.graph_reports import batch_placeholders, node_regions, with_region_counts
from graph_opt.passes.io_stages import BATCH_SOURCES, stage_puts
from graph_opt.report_page.called_nodes import row_readers, with_called_nodes
from graph_opt.report_page.changes import compared, done_instead
from graph_opt.report_page.graph_columns import Columns, PageGraph
from graph_opt.report_page.lookup_rows import lookup_rows, table_rows
from graph_opt.report_page.loss import losses_of
from graph_opt.report_page.overview import overview
from graph_opt.report_page.timeline import timeline
from graph_opt.reporting.cost import CostPlan
from graph_opt.reporting.cost_text import notes_of, step_rows, step_text
from graph_opt.reporting.report import Report
from graph_opt.reporting.text import report_text


@dataclasses.dataclass(frozen=True)
class PageSource:
    """What a page is made from.

    Attributes:
      title: What the graph is called, such as the name of its file.
      report: What passes found and did.
      graph_def: The graph that the report is about.
      rewritten: What passes made of it; None if they changed nothing, or `graph_def` itself is a
        rewritten graph.
      steps: `StepRecord`s of a run.
      notes: What else is known of the run, a line each.
      cost: What a step costs, if that was counted.
    """

    title: str
    report: Report
    graph_def: Any
    rewritten: Any = None
    steps: Tuple[Any, ...] = ()
    notes: Tuple[str, ...] = ()
    cost: Optional[CostPlan] = None


def page_content(source: PageSource) -> Dict[str, Any]:
    """Plain dicts, lists, strings and numbers; docs/graph-page.md says what the page shows.

    Raises:
      tf.errors.InvalidArgumentError: A graph is not valid: duplicate names, missing inputs.
    """
    with collection_paused():
        view = view_of(source.graph_def)
        last = view if source.rewritten is None else view_of(source.rewritten)
        return _content(source, view, last)


def _content(source: PageSource, view: GraphView, last: GraphView) -> Dict[str, Any]:
    if last is view:
        graphs: Sequence[PageGraph] = [PageGraph("graph", view.nodes, node_regions(view), {})]
    else:
        graphs = compared(view, last)
    called = with_called_nodes(
        graphs,
        [view_def for view_def in (source.graph_def, source.rewritten) if view_def is not None],
    )
    columns = Columns(called.graphs)
    report = source.report
    if report.regions:
        report = with_region_counts(report, graphs[-1].regions)
    done = {} if last is view else done_instead(view, last, report)
    readers = row_readers(called.bodies[0], view.nodes)
    lookups = lookup_rows(report, view, readers)
    return {
        "title": source.title,
        "text": report_text(report, source.title),
        "overview": overview(report, graphs, source.notes),
        "cost": None if source.cost is None else _cost(source.cost),
        "lookups": lookups,
        "tables": table_rows(report, view),
        "called": called.counts(),
        "graph": dict(
            columns.to_dict(),
            sources=_numbers(columns, [*last.of_op(*BATCH_SOURCES), *batch_placeholders(last)]),
            losses=_numbers(columns, losses_of(view)),
            buffers=_buffers(columns, last),
            instead=_by_number(columns, done),
            returned=_by_number(columns, called.returned()),
            lookups=_lookups(columns, lookups),
        ),
        "timeline": timeline(source.steps, _stage_regions(last)),
    }


def _cost(plan: CostPlan) -> Dict[str, Any]:
    header, *rows = step_rows(plan)
    return {"step": step_text(plan), "header": header, "rows": rows, "notes": notes_of(plan)}


def _numbers(columns: Columns, names: Sequence[str]) -> List[int]:
    return [columns.numbers[name] for name in names if name in columns.numbers]


def _buffers(columns: Columns, view: GraphView) -> List[List[int]]:
    """Pairs of a put and a take of one buffer, between which no edge of the graph is."""
    puts: Dict[bytes, List[str]] = {}
    for put in view.of_op(BUFFER_PUT):
        puts.setdefault(view.nodes[put].attr["shared_name"].s, []).append(put)
    return [
        _numbers(columns, [put, take])
        for take in view.of_op(BUFFER_TAKE)
        for put in puts.get(view.nodes[take].attr["shared_name"].s, ())
        if put in columns.numbers and take in columns.numbers
    ]


def _by_number(columns: Columns, found: Mapping[str, Sequence[str]]) -> Dict[int, List[int]]:
    return {
        columns.numbers[name]: _numbers(columns, others)
        for name, others in found.items()
        if name in columns.numbers
    }


def _lookups(columns: Columns, rows: Sequence[Mapping[str, Any]]) -> List[List[int]]:
    """Pairs of a node that ends lookups, and how many."""
    counts: Dict[int, int] = {}
    for row in rows:
        for number in _numbers(columns, [row["node"]]):
            counts[number] = counts.get(number, 0) + row["count"]
    return [[number, count] for number, count in counts.items()]


def _stage_regions(view: GraphView) -> Dict[str, str]:
    """The region of each stage's threads, by what its put says."""
    return {spec.name: spec.kind for spec in (spec_of(view.nodes[put]) for put in stage_puts(view))}
