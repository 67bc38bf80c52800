"""The first part of a page: what was done, gained and left, what to do, the regions, and counts."""

from __future__ import annotations

import collections
from typing import Any, Dict, List, Mapping, Sequence

from graph_opt.report_page.changes import MOVED
from graph_opt.report_page.graph_columns import PageGraph
from graph_opt.reporting.outcomes import StageReport
from graph_opt.reporting.remedies import remedy
from graph_opt.reporting.report import Report
from graph_opt.reporting.summary import summary
from graph_opt.reporting.tables import crossing_text, shape_text
from graph_opt.reporting.user_lookups import (
    UserLookup,
    lookups_elsewhere,
    refusals_by_code,
    user_lookups,
)

_MOST_BOUNDARY = 2000
_MOST_REMEDIES = 3
_NOTHING = "Nothing"
_NOT_ASKED = (
    ("do_group_embedding", "fuses lookups of a step into a few ops"),
    ("do_async_embedding", "runs lookups ahead of the step"),
)


def overview(
    report: Report, graphs: Sequence[PageGraph], notes: Sequence[str] = ()
) -> Dict[str, Any]:
    """What the first part shows.

    Args:
      report: What passes found and did.
      graphs: The graphs of the page.
      notes: What else is known of the run.
    """
    lookups = user_lookups(report)
    return {
        "summary": summary(report),
        "nodes": {graph.label: len(graph.nodes) for graph in graphs},
        "step": _step(graphs, bool(report.stages)),
        "regions": [
            dict(collections.Counter(graph.regions.values()), label=graph.label) for graph in graphs
        ],
        "lookups": {
            "found": sum(one.count for one in lookups),
            "fused": sum(one.count for one in lookups if one.group),
            **_groups(lookups),
            "ahead": sum(one.count for one in lookups if one.stage),
            "elsewhere": len(lookups_elsewhere(report)),
        },
        "ops": _counted(graphs, "op"),
        "devices": _counted(graphs, "device"),
        "remedies": _remedies(report),
        "changes": {graph.label: collections.Counter(graph.changes.values()) for graph in graphs},
        "stages": [_stage(stage) for stage in report.stages],
        "left": [
            {
                "code": code,
                "count": len(refused),
                "example": refused[0][0],
                "reason": "at {node}: need {need}, saw {saw}".format(**refused[0][1]),
                "remedy": remedy(code),
            }
            for code, refused in refusals_by_code(report).items()
        ],
        "notes": [*_notes(report), *(["of the run", note] for note in notes)],
    }


def _groups(lookups: Sequence[UserLookup]) -> Dict[str, int]:
    """How many ops do the work of lookups, and how many of them do that of one alone."""
    sizes: Dict[str, int] = collections.Counter()
    for one in lookups:
        if one.group:
            sizes[one.group] += one.count
    return {"groups": len(sizes), "alone": sum(size == 1 for size in sizes.values())}


def _step(graphs: Sequence[PageGraph], has_stages: bool) -> Dict[str, int]:
    """Nodes that a step runs, before and after, and those that run ahead of it instead."""
    counts = [collections.Counter(graph.regions.values()) for graph in graphs]
    moved = sum(change == MOVED for change in graphs[0].changes.values())
    after = counts[-1]
    return {
        "before": counts[0]["main"] + moved,
        "after": after["main"],
        "ahead": after["prefetch"] + after["io"] if has_stages else 0,
    }


def _remedies(report: Report) -> List[Dict[str, Any]]:
    """What to do about most of what was left, the most frequent first."""
    lookups = user_lookups(report)
    found: List[Dict[str, Any]] = [
        {"remedy": "Set {}: it {}".format(option, does), "count": len(lookups), "code": option}
        for (option, does), outcomes in zip(_NOT_ASKED, (report.fused_lookups, report.lookups))
        if lookups and not outcomes
    ]
    for code, refused in refusals_by_code(report).items():
        text = remedy(code)
        if text and not text.startswith(_NOTHING):
            found.append(
                {"remedy": text, "count": len(refused), "code": code, "example": refused[0][0]}
            )
    return found[:_MOST_REMEDIES]


def _stage(stage: StageReport) -> Dict[str, Any]:
    return {
        "name": stage.name,
        "source": stage.io_source,
        "inferred": stage.inferred,
        "nodes": stage.nodes,
        "tensors": len(stage.boundary),
        "crossing": crossing_text(stage.boundary),
        "boundary": [
            [tensor.name, tensor.dtype, shape_text(tensor.shape), crossing_text([tensor])]
            for tensor in stage.boundary[:_MOST_BOUNDARY]
        ],
    }


def _counted(graphs: Sequence[PageGraph], field: str) -> List[List[Any]]:
    """A value, and how many nodes of each graph have it; the most frequent first."""
    counts: List[Mapping[str, int]] = [
        collections.Counter(getattr(node, field) for node in graph.nodes.values())
        for graph in graphs
    ]
    values = dict.fromkeys(value for count in counts for value in count)
    rows: List[List[Any]] = [
        [value, *(count.get(value, 0) for count in counts)] for value in values
    ]
    return sorted(rows, key=lambda row: (-max(row[1:]), row[0]))


def _notes(report: Report) -> List[List[str]]:
    kinds = (
        ("not done", report.left_alone),
        ("changed", tuple(filter(None, (report.smart_stage, report.micro_batches)))),
        ("changed", report.changes),
        ("tuned", report.tuned),
        ("read again", tuple(filter(None, (report.read_again,)))),
        ("warning", report.warnings),
    )
    return [[kind, text] for kind, texts in kinds for text in texts]
