"""What a rewrite did to each node of a graph, for the colours of a page."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from graph_opt.graph.view import GraphView
from graph_opt.passes.graph_reports import FUSED_OPS, node_regions
from graph_opt.report_page.graph_columns import PageGraph
from graph_opt.reporting.report import Report

ADDED, COPY, FUSED_OP, REWIRED, IDLE = "a", "c", "l", "r", "x"
MOVED, FUSED_AWAY, LOST = "m", "f", "d"


def compared(before: GraphView, after: GraphView) -> Tuple[PageGraph, PageGraph]:
    """The two graphs of a rewrite with the region of each node, and what became of it.

    Before: moved behind the input, done by a fused op, has other inputs, or lost. After: added, a
    copy of a moved node, a fused op, has other inputs, or kept for its name.

    Args:
      before: The graph as it was.
      after: The rewritten one.
    """
    old, new = before.nodes, after.nodes
    regions = node_regions(after)
    copies = _copies(old, new, regions)
    moved = set(copies.values())
    old_changes: Dict[str, str] = {}
    new_changes: Dict[str, str] = {name: COPY for name in copies}
    old_regions: Dict[str, str] = {}
    for name, node in old.items():
        region = regions.get(name, "none")
        old_regions[name] = "prefetch" if name in moved else _was(region)
        if name not in new:
            old_changes[name] = LOST
        elif name in moved:
            old_changes[name], new_changes[name] = MOVED, IDLE
        elif region == "idle":
            old_changes[name], new_changes[name] = FUSED_AWAY, IDLE
        elif list(node.input) != list(new[name].input):
            old_changes[name] = new_changes[name] = REWIRED
    for name, node in new.items():
        if name not in old:
            new_changes[name] = FUSED_OP if node.op in FUSED_OPS else new_changes.get(name, ADDED)
    return (
        PageGraph("before", old, old_regions, old_changes),
        PageGraph("after", new, regions, new_changes),
    )


def done_instead(before: GraphView, after: GraphView, report: Report) -> Dict[str, List[str]]:
    """What does the work of nodes in a rewritten graph: the copy of one that moved, fused ops."""
    copies: Dict[str, List[str]] = {}
    for name in after.nodes:
        original = name.partition("/")[2]
        if original and name not in before:
            copies.setdefault(original, []).append(name)
    found = {original: names for original, names in copies.items() if original in before}
    for lookup in report.fused:
        output = lookup.output.rpartition(":")[0]
        found.setdefault(output, []).extend(copies.get(lookup.group, [lookup.group]))
    return found


def _was(region: str) -> str:
    """The region of a node before others did its work."""
    return "main" if region == "idle" else region


def _copies(
    old: Mapping[str, Any], new: Mapping[str, Any], regions: Mapping[str, str]
) -> Dict[str, str]:
    """Nodes of a stage to those that they are copies of: the name without the stage's scope."""
    found = {}
    for name in new:
        original = name.partition("/")[2]
        if name not in old and original in old and regions.get(name) in ("prefetch", "io"):
            found[name] = original
    return found
