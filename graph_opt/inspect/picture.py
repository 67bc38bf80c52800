"""Draws the three regions of a rewritten graph as an SVG picture."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence
from xml.sax.saxutils import escape

from graph_opt.reporting.outcomes import StageReport
from graph_opt.reporting.report import Report
from graph_opt.reporting.tables import crossing_text, printable

_WIDTH = 300
_GAP = 190
_LINE = 18
_MOST_LINES = 40
_COLOURS = {"io": "#dbeafe", "prefetch": "#dcfce7", "main": "#fef3c7"}


class _Box(NamedTuple):
    region: str
    lines: Sequence[str]


def regions_svg(report: Report) -> str:
    """Boxes for io, prefetch and main, with what each holds and what crosses between them.

    Args:
      report: What the passes found and did.

    Returns:
      The text of an SVG file.
    """
    boxes = [
        _Box("io", _sources(report)),
        _Box("prefetch", [lookup.name for lookup in report.moved]),
        _Box("main", [lookup.name + " (left)" for lookup in report.lookups if not lookup.stage]),
    ]
    height = 70 + _LINE * (2 + max(len(_shown(box.lines)) for box in boxes))
    width = 3 * _WIDTH + 2 * _GAP + 40
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" '
        'viewBox="0 0 {0} {1}" font-family="sans-serif" font-size="13">'.format(width, height),
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for column, box in enumerate(boxes):
        parts.extend(_box(box, column, height, report.regions.get(box.region, 0)))
    parts.extend(_arrow(0, height, ["batches"] if report.stages else ["nothing"]))
    parts.extend(_arrow(1, height, [_crossing(stage) for stage in report.stages] or ["nothing"]))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _sources(report: Report) -> List[str]:
    return [
        stage.io_source + (" (stage inferred)" if stage.inferred else "") for stage in report.stages
    ]


def _crossing(stage: StageReport) -> str:
    return "{} tensors, {}".format(len(stage.boundary), crossing_text(stage.boundary))


def _shown(lines: Sequence[str]) -> List[str]:
    if len(lines) <= _MOST_LINES:
        return list(lines)
    return list(lines[: _MOST_LINES - 1]) + ["and {} more".format(len(lines) - _MOST_LINES + 1)]


def _box(box: _Box, column: int, height: int, nodes: int) -> List[str]:
    left = 20 + column * (_WIDTH + _GAP)
    parts = [
        '<rect x="{}" y="20" width="{}" height="{}" rx="8" fill="{}" stroke="#555"/>'.format(
            left, _WIDTH, height - 40, _COLOURS[box.region]
        ),
        '<text x="{}" y="44" font-weight="bold">{}: {} nodes</text>'.format(
            left + 12, box.region, nodes
        ),
    ]
    for number, line in enumerate(_shown(box.lines)):
        line = printable(line)
        short = line if len(line) <= 42 else "..." + line[-39:]
        parts.append(
            '<text x="{}" y="{}"><title>{}</title>{}</text>'.format(
                left + 12, 68 + number * _LINE, _xml(line), _xml(short)
            )
        )
    return parts


def _xml(text: str) -> str:
    return escape(printable(text))


def _arrow(column: int, height: int, labels: Sequence[str]) -> List[str]:
    start = 20 + (column + 1) * _WIDTH + column * _GAP + 6
    end = start + _GAP - 12
    middle = height // 2
    parts = [
        '<path d="M{} {} H{} m-8 -5 l8 5 l-8 5" fill="none" stroke="#333"/>'.format(
            start, middle, end
        )
    ]
    for number, label in enumerate(reversed(labels)):
        parts.append(
            '<text x="{}" y="{}" text-anchor="middle" font-size="11">{}</text>'.format(
                (start + end) // 2, middle - 8 - number * _LINE, _xml(label)
            )
        )
    return parts
