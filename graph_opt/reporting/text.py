"""The one renderer of reports, as text for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Sequence

from graph_opt.reporting.outcomes import (
    DEFERRED_PART,
    FUSED_PART,
    MOVED,
    NO_PART,
    StageReport,
)
from graph_opt.reporting.refreshed import refreshed_text
from graph_opt.reporting.remedies import remedy
from graph_opt.reporting.staleness import staleness_text
from graph_opt.reporting.tables import (
    bytes_text,
    counted,
    crossing_text,
    printable,
    shape_text,
    table,
)
from graph_opt.reporting.user_lookups import (
    UserLookup,
    fused_parts,
    lookups_elsewhere,
    refusals_by_code,
    user_lookups,
)

if TYPE_CHECKING:
    from graph_opt.reporting.report import Report

REGIONS = {"io": "io", "prefetch": "prefetch", "main": "main", "none": "no batch", "idle": "idle"}
"""The regions of nodes, and what is on their own: reached by no batch, or kept for its name."""


def report_text(report: Report, title: str) -> str:
    """The whole report: regions, lookups, boundary tensors, refusals, warnings.

    Args:
      report: What the passes found and did.
      title: The first line, such as the name of the file.

    Example:
      >>> print(report_text(optimized.report, "graph.pbtxt"))
      graph.pbtxt
      ...
      region    nodes
      io            2
    """
    blocks = [title, _regions(report), _tables_of(report), served_text(report), _lookups(report)]
    blocks.append(_columns(report))
    blocks.extend(_stage(stage) for stage in report.stages)
    blocks.append(report.smart_stage)
    blocks.append(report.micro_batches)
    blocks.append("\n".join(report.tuned))
    blocks.append(report.read_again)
    blocks.append(staleness_text(report.staleness))
    blocks.append(refreshed_text(report.refreshed))
    blocks.append("\n".join(report.changes))
    blocks.append("\n".join(_dense_lines(report)))
    blocks.append(refusals_text(report))
    blocks.append("\n".join(_remarks(report)))
    return "\n\n".join(block for block in blocks if block)


def brief_text(report: Report) -> str:
    """In a few lines: what was fused and moved, what was left as it is, and warnings."""
    lines = []
    if report.fused_lookups:
        lines.extend(_fusion_lines(report))
    told = report.fused_lookups or report.tables or report.smart_stage or report.micro_batches
    if report.changes and not (told or report.lookups or report.seconds):
        return "\n".join(report.changes)  # of a session that no pass has looked at
    if report.lookups or not told:
        lines.append(_moved_line(report))
    if report.smart_stage:
        lines.append(report.smart_stage)
    if report.micro_batches:
        lines.append(report.micro_batches)
    if report.tables:
        lines.insert(0, "tables: {} of {} sharded".format(len(report.sharded), len(report.tables)))
    lines[0] = "{}, {:.2f} s".format(lines[0], report.seconds)
    if report.columns:
        moved = sum(column.outcome == MOVED for column in report.columns)
        lines.append("  {} of {} columns without a table moved".format(moved, len(report.columns)))
    if report.tables:
        lines.extend("  " + line for line in _tables_of(report).splitlines())
    for stage in report.stages:
        lines.extend(_stage_lines(stage))
    lines.extend("  " + line for line in [*report.tuned, *report.changes, *_dense_lines(report)])
    lines.extend("  " + line for line in [report.read_again] if line)
    lines.extend("  " + line for line in staleness_text(report.staleness).splitlines())
    lines.extend("  " + line for line in refreshed_text(report.refreshed).splitlines())
    lines.extend("  " + line for line in refusals_text(report).splitlines())
    return "\n".join(lines + _remarks(report))


def refusals_text(report: Report) -> str:
    """What was left as it is and why: a line for each code; "" if nothing was."""
    rows = [
        [code, len(refused), "{}: {}".format(refused[0][0], _reason(refused[0][1])), remedy(code)]
        for code, refused in refusals_by_code(report).items()
    ]
    return table(["left as it is", "count", "example", "what to do"], rows) if rows else ""


def served_text(report: Report) -> str:
    """The tables of a served graph, a line each, and what they take; "" if there are none."""
    if not report.served:
        return ""
    rows = [
        [each.name, _known(each.rows), _known(each.width), each.dtype]
        + ["?" if each.bytes is None else bytes_text(each.bytes), each.source, each.lookups]
        for each in report.served
    ]
    total = sum(each.bytes or 0 for each in report.served)
    header = ["table", "rows", "width", "stored as", "bytes", "read from", "lookups"]
    last = "{}, {}".format(counted(len(rows), "table"), bytes_text(total))
    return "{}\n{}".format(table(header, rows), last)


def _regions(report: Report) -> str:
    if not report.regions:
        return ""
    counts = [(text, report.regions.get(name)) for name, text in REGIONS.items()]
    rows = [[text, count] for text, count in counts if count is not None]
    return table(["region", "nodes"], rows)


def _known(number: Optional[int]) -> str:
    return "?" if number is None else "{:,}".format(number)


def _lookups(report: Report) -> str:
    lookups = user_lookups(report)
    if not lookups:
        return "" if _told_otherwise(report) else "no embedding lookup found"
    header, rows = ["lookup", "api", "combiner", "tables"], [_lookup_row(one) for one in lookups]
    if report.fused_lookups:
        header += ["looked up by", "gradient", "update"]
        for row, one in zip(rows, lookups):
            row += [one.group or "itself", one.gradient, one.update]
    if report.lookups:
        header.append("runs in")
        for row, one in zip(rows, lookups):
            row.append(one.stage or "main")
        if any(one.stage and one.most_missed is not None for one in lookups):
            header.append("updates missed")
            for row, one in zip(rows, lookups):
                row.append(_missed(one))
    if any(one.refusals for one in lookups):
        header.append("left as it is")
        for row, one in zip(rows, lookups):
            codes = dict.fromkeys(refusal["code"] for refusal in one.refusals)
            row.append(", ".join(codes) or "-")
    return table(header, rows)


def _told_otherwise(report: Report) -> bool:
    """Whether a report without lookups says something else of them, or of what was done."""
    done = report.left_alone or report.smart_stage or report.micro_batches
    return bool(done or lookups_elsewhere(report))


def _tables_of(report: Report) -> str:
    """The tables that were divided, or were meant to be."""
    rows = [
        [
            one.name,
            shape_text(one.shape),
            len(one.slots),
            bytes_text(one.bytes),
            bytes_text(one.bytes_here),
            one.rule or ("whole on every rank" if one.refusal else "whole, but could be sharded"),
        ]
        for one in report.tables
    ]
    return table(["table", "shape", "slots", "whole", "here", "rows"], rows) if rows else ""


def _columns(report: Report) -> str:
    if not report.columns:
        return ""
    rows = [[column.name, column.api, column.stage or "main"] for column in report.columns]
    return table(["column without a table", "api", "runs in"], rows)


def _lookup_row(lookup: UserLookup) -> List[str]:
    name = lookup.name if lookup.count == 1 else "{} ({})".format(lookup.name, lookup.count)
    return [name, lookup.api, lookup.combiner or "-", _tables(lookup.tables)]


def _missed(lookup: UserLookup) -> str:
    if not lookup.stage or lookup.most_missed is None:
        return "-"
    return "at most {}".format(lookup.most_missed) if lookup.most_missed else "none"


def _tables(names: Sequence[str], noun: str = "shard") -> str:
    if len(names) < 2:
        return "".join(names)
    more = len(names) - 1
    return "{} and {} more {}".format(names[0], more, noun if more == 1 else noun + "s")


def _stage(stage: StageReport) -> str:
    source = "an IO stage inserted behind {}" if stage.inferred else "{}"
    title = "stage {}: batches of {}, {}, {} cross: {} each step".format(
        stage.name,
        source.format(stage.io_source),
        counted(stage.nodes, "node"),
        counted(len(stage.boundary), "tensor"),
        crossing_text(stage.boundary),
    )
    rows = [
        [tensor.name, tensor.dtype, shape_text(tensor.shape), crossing_text([tensor])]
        for tensor in stage.boundary
    ]
    return printable(title) + "\n" + table(["boundary tensor", "dtype", "shape", "each step"], rows)


def _reason(refusal: Any) -> str:
    return "at {node}: need {need}, saw {saw}".format(**refusal)


def _remarks(report: Report) -> List[str]:
    return [
        *("not done: " + reason for reason in report.left_alone),
        *("warning: " + warning for warning in report.warnings),
    ]


def _moved_line(report: Report) -> str:
    lookups = user_lookups(report)
    return "async embedding: {} of {} lookups moved, {}".format(
        sum(lookup.count for lookup in lookups if lookup.stage),
        sum(lookup.count for lookup in lookups),
        counted(len(report.stages), "stage"),
    )


def _fusion_lines(report: Report) -> List[str]:
    count = sum(lookup.count for lookup in report.fused_lookups)
    lines = ["group embedding: " + ", ".join(fused_parts(report.fused, count))]
    trained = [lookup for lookup in report.fused if lookup.gradient != NO_PART]
    for part in ("gradient", "update"):
        outcomes = [getattr(lookup, part) for lookup in trained]
        deferred = outcomes.count(DEFERRED_PART)
        fused = outcomes.count(FUSED_PART) + deferred
        if trained:
            lines.append("  {}s fused: {} of {}".format(part, fused, len(trained)))
            lines[-1] += " ({} deferred)".format(deferred) if deferred else ""
    averages = [lookup.average for lookup in report.fused if lookup.average != NO_PART]
    if averages:
        deferred = averages.count(DEFERRED_PART)
        lines.append("  moving averages deferred: {} of {}".format(deferred, len(averages)))
    return lines


def _dense_lines(report: Report) -> List[str]:
    """What makes a deferred update cost as much as one of the whole table, and when."""
    lines = [
        "dense_reader: {} ({}) has all rows of {} caught up in each step, which takes as "
        "long as TensorFlow's own update: read single rows, or read it less often".format(
            reader.node, reader.op, _tables(reader.tables, "table")
        )
        for reader in report.dense_readers
        if reader.in_each_step
    ]
    others = [reader.node for reader in report.dense_readers if not reader.in_each_step]
    if others:
        more = " or " + counted(len(others) - 1, "other node") if len(others) > 1 else ""
        lines.append("all rows are caught up when {}{} runs".format(others[0], more))
    return lines


def _stage_lines(stage: StageReport) -> List[str]:
    source = " (IO stage inserted by the pass)" if stage.inferred else ""
    return [
        "  stage {}: batches of {}{}, {} in prefetch, {} cross".format(
            stage.name,
            stage.io_source,
            source,
            counted(stage.nodes, "node"),
            counted(len(stage.boundary), "tensor"),
        )
    ]
