"""The one renderer of reports: texts for people, and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, List, Sequence

from graph_opt.reporting.outcomes import (
    FUSED_PART,
    NO_PART,
    FusedLookup,
    LookupOutcome,
    StageReport,
)
from graph_opt.reporting.tables import crossing_text, shape_text, table

if TYPE_CHECKING:
    from graph_opt.reporting.report import Report

REGIONS = ("io", "prefetch", "main")


def json_text(plain: Dict[str, Any]) -> str:
    """Plain dicts, lists, strings and numbers as indented JSON."""
    return json.dumps(plain, indent=2, sort_keys=True)


def report_text(report: Report, title: str) -> str:
    """The whole report: regions, lookups, boundary tensors, refusals, warnings.

    Args:
      report: What a pass saw and did.
      title: First line, such as the name of the file.

    Example:
      >>> print(report_text(optimized.report, "graph.pbtxt"))
      graph.pbtxt
      ...
      region    nodes
      io            2
    """
    blocks = [title, _regions(report), _fused_lookups(report), _lookups(report)]
    blocks.extend(_stage(stage) for stage in report.stages)
    blocks.append(refusals_text(report))
    blocks.append("\n".join("warning: " + warning for warning in report.warnings))
    return "\n\n".join(block for block in blocks if block)


def brief_text(report: Report) -> str:
    """What was fused and moved in a few lines, and a line for each refusal and warning."""
    lines = []
    if report.fused_lookups:
        lines.extend(_fusion_lines(report))
    if report.lookups or not report.fused_lookups:
        lines.append(
            "async embedding: {} of {} lookups moved, {} stages".format(
                len(report.moved), len(report.lookups), len(report.stages)
            )
        )
    lines[0] = "{}, {:.2f} s".format(lines[0], report.seconds)
    for stage in report.stages:
        lines.extend(_stage_lines(stage))
    lines.extend(_transfer_lines(report))
    lines.extend(_left_lines(report))
    lines.extend("warning: " + warning for warning in report.warnings)
    return "\n".join(lines)


def refusals_text(report: Report) -> str:
    """What was left alone and why, one line each; "" if nothing was."""
    rows = [
        [lookup.name, lookup.refusal["code"], _reason(lookup.refusal)]
        for lookup in report.lookups
        if lookup.refusal is not None
    ]
    rows += [
        [lookup.name, refusal["code"], _reason(refusal)]
        for lookup in report.fused_lookups
        for refusal in lookup.refusals
    ]
    rows += [[refusal["node"], refusal["code"], _reason(refusal)] for refusal in report.refusals]
    return table(["left alone", "code", "reason"], rows) if rows else ""


def _regions(report: Report) -> str:
    if not report.regions:
        return ""
    return table(["region", "nodes"], [[name, report.regions.get(name, 0)] for name in REGIONS])


def _fused_lookups(report: Report) -> str:
    if not report.fused_lookups:
        return ""
    header = ["lookup", "api", "combiner", "tables", "looked up by", "gradient", "update"]
    return table(header, [_fused_row(lookup) for lookup in report.fused_lookups])


def _fused_row(lookup: FusedLookup) -> List[str]:
    return [
        lookup.name,
        lookup.api,
        lookup.combiner or "-",
        _tables(lookup.tables),
        lookup.group or "itself",
        lookup.gradient,
        lookup.update,
    ]


def _lookups(report: Report) -> str:
    if not report.lookups and report.fused_lookups:
        return ""
    if not report.lookups:
        return "no embedding lookup found"
    header = ["lookup", "api", "combiner", "tables", "device", "outcome"]
    return table(header, [_lookup_row(lookup) for lookup in report.lookups])


def _lookup_row(lookup: LookupOutcome) -> List[str]:
    outcome = (
        lookup.outcome if not lookup.stage else "{} to {}".format(lookup.outcome, lookup.stage)
    )
    return [
        lookup.name,
        lookup.api,
        lookup.combiner or "-",
        _tables(lookup.tables),
        lookup.device or "-",
        outcome,
    ]


def _tables(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return "{} and {} more shards".format(names[0], len(names) - 1)


def _stage(stage: StageReport) -> str:
    source = "an IO stage put behind {}" if stage.inferred else "{}"
    title = "stage {}: batches of {}, {} nodes, {} tensors cross: {} each step".format(
        stage.name,
        source.format(stage.io_source),
        stage.nodes,
        len(stage.boundary),
        crossing_text(stage.boundary),
    )
    rows = [
        [tensor.name, tensor.dtype, shape_text(tensor.shape), crossing_text([tensor])]
        for tensor in stage.boundary
    ]
    return title + "\n" + table(["boundary tensor", "dtype", "shape", "each step"], rows)


def _reason(refusal: Any) -> str:
    return "at {node}: need {need}, saw {saw}".format(**refusal)


def _fusion_lines(report: Report) -> List[str]:
    groups = {lookup.group for lookup in report.fused}
    lines = [
        "group embedding: {} of {} lookups fused into {} ops".format(
            len(report.fused), len(report.fused_lookups), len(groups)
        )
    ]
    trained = [lookup for lookup in report.fused if lookup.gradient != NO_PART]
    for part in ("gradient", "update"):
        fused = sum(getattr(lookup, part) == FUSED_PART for lookup in trained)
        if trained:
            lines.append("  {}s fused: {} of {}".format(part, fused, len(trained)))
    if report.whole_table_reads_removed:
        lines.append(
            "  {} lookups freed from reads of whole tables".format(
                len(report.whole_table_reads_removed)
            )
        )
    for lookup in report.fused_lookups:
        for refusal in lookup.refusals:
            reason = "{code} at {node}: need {need}, saw {saw}".format(**refusal)
            lines.append("  not fused: {} ({}): {}".format(lookup.name, lookup.api, reason))
    return lines


def _stage_lines(stage: StageReport) -> List[str]:
    source = " (IO stage put there by the pass)" if stage.inferred else ""
    return [
        "  stage {}: batches of {}{}, {} nodes in prefetch, {} tensors cross".format(
            stage.name, stage.io_source, source, stage.nodes, len(stage.boundary)
        )
    ]


def _transfer_lines(report: Report) -> List[str]:
    return [
        "  {} {} tensors from {} to {} travel as one".format(
            transfer.tensors, transfer.dtype, transfer.source, transfer.target
        )
        for transfer in report.packed_transfers
    ]


def _left_lines(report: Report) -> List[str]:
    lines = []
    for lookup in report.lookups:
        if lookup.refusal is not None:
            reason = "{code} at {node}: need {need}, saw {saw}".format(**lookup.refusal)
            lines.append("  left in main: {} ({}): {}".format(lookup.name, lookup.api, reason))
    for refusal in report.refusals:
        lines.append("  left alone: {code} at {node}: need {need}, saw {saw}".format(**refusal))
    if report.protected_gathers:
        lines.append(
            "  {} gathers kept from becoming whole-table reads".format(
                len(report.protected_gathers)
            )
        )
    return lines
