"""Draws the three regions of a graph as an SVG picture, in the way of docs/regions.svg."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple
from xml.sax.saxutils import escape

from graph_opt.reporting.outcomes import NO_PART, StageReport
from graph_opt.reporting.report import Report
from graph_opt.reporting.tables import counted, crossing_text, printable
from graph_opt.reporting.user_lookups import UserLookup, user_lookups

_WIDTH = 1100
_TOP = 20
_LINE = 18
_FIRST_LINE = 104
_MOST_LINES = 30
_MOST_CHARACTERS = 40
_TABLES_HEIGHT = 130
_STYLE = """\
<defs>
<marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" \
orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="#37474f"/></marker>
<style>
.edge { stroke: #37474f; stroke-width: 2; fill: none; marker-end: url(#arrow); }
.head { font-size: 18px; font-weight: bold; fill: #263238; }
.small { font-size: 12px; fill: #455a64; }
.middle { text-anchor: middle; }
.buffer { fill: #eceff1; stroke: #546e7a; stroke-width: 2; }
.tables { fill: #f3e5f5; stroke: #ab47bc; stroke-width: 2; }
</style>
</defs>"""


class _Region(NamedTuple):
    """A box: which region, what it does, what it holds, and where and in which colours it is."""

    name: str
    does: str
    lines: Sequence[str]
    left: int
    width: int
    fill: str
    stroke: str

    @property
    def right(self) -> int:
        return self.left + self.width

    @property
    def middle(self) -> int:
        return self.left + self.width // 2


def regions_svg(report: Report) -> str:
    """Boxes for io, prefetch and main, the buffers between them with what crosses, and the tables.

    Args:
      report: What the passes found and did.

    Returns:
      The text of an SVG file.
    """
    lookups = user_lookups(report)
    io, prefetch, main = regions = (
        _Region("io", "reads, batches", _sources(report), 20, 200, "#e3f2fd", "#42a5f5"),
        _Region("prefetch", *_ahead(lookups), 340, 300, "#e8f5e9", "#66bb6a"),
        _Region("main", *_in_main(lookups), 780, 300, "#fff3e0", "#ffa726"),
    )
    lines = max(len(_shown(region.lines)) for region in regions)
    bottom = max(_FIRST_LINE + _LINE * lines, 170)
    height = bottom + (_TABLES_HEIGHT if lookups else 20)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" '
        'viewBox="0 0 {0} {1}" role="img" font-size="14" '
        'font-family="DejaVu Sans, Verdana, Helvetica, sans-serif">'.format(_WIDTH, height),
        "<title>The three regions of the graph</title>",
        _STYLE,
        '<rect width="100%" height="100%" rx="8" fill="#ffffff"/>',
    ]
    if not report.stages:  # Behind the box of what runs ahead.
        parts.append(_edge("M{} 90 H{}".format(io.right + 1, main.left - 3)))
    for region in regions:
        parts.extend(_box(region, bottom, report.regions.get(region.name, 0)))
    if report.stages:
        parts.extend(_buffer(io, prefetch, ["batches"]))
        parts.extend(_buffer(prefetch, main, [_crossing(stage) for stage in report.stages]))
    if lookups:
        parts.extend(_tables(lookups, prefetch, main, bottom))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ahead(lookups: Sequence[UserLookup]) -> Tuple[str, List[str]]:
    moved = [lookup.name for lookup in lookups if lookup.stage]
    return "looks up ahead of the step" if moved else "nothing runs ahead", moved


def _in_main(lookups: Sequence[UserLookup]) -> Tuple[str, List[str]]:
    left = [lookup.name + " (left)" for lookup in lookups if not lookup.stage]
    return "runs in session.run for a batch", left


def _sources(report: Report) -> List[str]:
    return [
        line
        for stage in report.stages
        for line in (stage.io_source, *(["(stage inferred)"] if stage.inferred else []))
    ]


def _crossing(stage: StageReport) -> str:
    return "{}, {}".format(counted(len(stage.boundary), "tensor"), crossing_text(stage.boundary))


def _shown(lines: Sequence[str]) -> List[str]:
    if len(lines) <= _MOST_LINES:
        return list(lines)
    return list(lines[: _MOST_LINES - 1]) + ["and {} more".format(len(lines) - _MOST_LINES + 1)]


def _box(region: _Region, bottom: int, nodes: int) -> List[str]:
    parts = [
        '<rect x="{}" y="{}" width="{}" height="{}" rx="8" fill="{}" stroke="{}" '
        'stroke-width="2"/>'.format(
            region.left, _TOP, region.width, bottom - _TOP, region.fill, region.stroke
        ),
        _text(region.middle, 46, region.name, "head middle"),
        _text(region.middle, 64, counted(nodes, "node"), "middle"),
        _text(region.middle, 82, region.does, "small middle"),
    ]
    most = _MOST_CHARACTERS * region.width // 300
    for number, line in enumerate(_shown(region.lines)):
        y = _FIRST_LINE + number * _LINE
        parts.append(_text(region.left + 12, y, line, "small", most))
    return parts


def _buffer(start: _Region, end: _Region, labels: Sequence[str]) -> List[str]:
    """The buffer between two boxes, and what it hands over."""
    middle = (start.right + end.left) // 2
    parts = [
        '<rect class="buffer" x="{}" y="70" width="18" height="40"/>'.format(middle + shift)
        for shift in (-19, 1)
    ]
    parts.append(_edge("M{} 90 H{}".format(start.right + 1, middle - 22)))
    parts.append(_edge("M{} 90 H{}".format(middle + 21, end.left - 3)))
    for number, label in enumerate(labels[:3]):
        for row, part in enumerate(label.split(", ", 1)):
            y = 130 + (2 * number + row) * 16
            parts.append(_text(middle, y, part, "small middle", 20))
    return parts


def _tables(
    lookups: Sequence[UserLookup], prefetch: _Region, main: _Region, bottom: int
) -> List[str]:
    """The tables below, with edges to what reads their rows and from what updates them."""
    count = len({table for lookup in lookups for table in lookup.tables})
    middle, top = (prefetch.right + main.left) // 2, bottom + 50
    reader = prefetch if any(lookup.stage for lookup in lookups) else main
    rows = "M{0} {1} C {2} {1} {3} {4} {3} {5}"
    left = middle - 82 if reader is prefetch else middle + 82
    near = left - 60 if reader is prefetch else left + 60
    label = reader.middle - (12 if reader is prefetch else 42)
    parts = [
        '<path class="tables" d="M{} {} v44 a80 14 0 0 0 160 0 v-44"/>'.format(middle - 80, top),
        '<ellipse class="tables" cx="{}" cy="{}" rx="80" ry="14"/>'.format(middle, top),
        _text(middle, top + 38, counted(count, "embedding table"), "middle"),
        _edge(rows.format(left, top + 14, near, reader.middle, bottom + 40, bottom + 3)),
        _text(label, bottom + 34, "rows", "small", anchor="end"),
    ]
    if any(lookup.gradient != NO_PART for lookup in lookups):
        right, x, y = middle + 84, main.middle + 60, top + 34
        path = "M{0} {1} C {0} {2} {3} {2} {4} {2}".format(x, bottom + 1, y, right + 60, right)
        parts += [_edge(path), _text(x + 12, bottom + 34, "updates", "small")]
    return parts


def _edge(path: str) -> str:
    return '<path class="edge" d="{}"/>'.format(path)


def _text(
    x: int, y: int, text: str, style: str, most: int = _MOST_CHARACTERS, anchor: str = ""
) -> str:
    """A line of text; of a long one its end, and all of it as a tooltip."""
    line = printable(text)
    short = line if len(line) <= most else "…" + line[1 - most :]
    title = "" if short == line else "<title>{}</title>".format(escape(line))
    placed = ' text-anchor="{}"'.format(anchor) if anchor else ""
    return '<text x="{}" y="{}" class="{}"{}>{}{}</text>'.format(
        x, y, style, placed, title, escape(short)
    )
