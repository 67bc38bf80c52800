"""Reports as text, laid out for reading."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from graph_opt.passes.report import (
    BoundaryTensor,
    FusedLookup,
    LookupOutcome,
    Report,
    StageReport,
)

REGIONS = ("io", "prefetch", "main")


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


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns as wide as their widest cell; columns of numbers are aligned to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(header)] + cells) for i in range(len(header))]
    right = [
        bool(rows) and all(isinstance(row[i], int) for row in rows) for i in range(len(header))
    ]
    lines = []
    for row in [list(header)] + cells:
        aligned = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right)
        ]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def bytes_text(count: int) -> str:
    """A number of bytes for people: `512 B`, `1.5 KiB`, `12.2 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return "{} B".format(count) if unit == "B" else "{:.1f} {}".format(size, unit)
        size /= 1024
    raise AssertionError("unreachable")


def crossing_text(tensors: Sequence[BoundaryTensor]) -> str:
    """Bytes that these tensors carry each step, as far as the shapes tell."""
    known = sum(tensor.bytes for tensor in tensors if tensor.bytes is not None)
    per_row = sum(tensor.bytes_per_row or 0 for tensor in tensors if tensor.bytes is None)
    unknown = sum(1 for tensor in tensors if tensor.bytes is None and not tensor.bytes_per_row)
    parts = [bytes_text(known)] if known or not (per_row or unknown) else []
    if per_row:
        parts.append("{} a row".format(bytes_text(per_row)))
    if unknown:
        parts.append("{} of unknown size".format(unknown))
    return " + ".join(parts)


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


def shape_text(shape: Optional[Sequence[Optional[int]]]) -> str:
    """`[?, 16]`, or `?` for an unknown rank."""
    if shape is None:
        return "?"
    return "[{}]".format(", ".join("?" if size is None else str(size) for size in shape))


def _reason(refusal: Any) -> str:
    return "at {node}: need {need}, saw {saw}".format(**refusal)
