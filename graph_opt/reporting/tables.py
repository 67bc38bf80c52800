"""Text laid out in columns, and the cells in them."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from graph_opt.reporting.outcomes import BoundaryTensor


def printable(text: str) -> str:
    r"""The text with every character that cannot be printed spelled out, as in `\x1b`.

    Names in a graph file may contain anything: line breaks would break tables, and other control
    characters affect terminals and are not allowed in XML.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns as wide as their widest cell; columns of numbers are aligned to the right."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
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


def counted(count: int, noun: str) -> str:
    """A number of things: `1 op`, `2 ops`."""
    return "1 {}".format(noun) if count == 1 else "{} {}s".format(count, noun)


def first_of(names: Sequence[str], most: int) -> str:
    """Names, or the first ones of many: `a, b and 3 more`."""
    more = len(names) - most
    shown = ", ".join(names[:most])
    return "{} and {} more".format(shown, more) if more > 0 else shown


def bytes_text(count: int) -> str:
    """A readable number of bytes: `512 B`, `1.5 KiB`, `12.2 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return "{} B".format(count) if unit == "B" else "{:.1f} {}".format(size, unit)
        size /= 1024
    raise AssertionError("unreachable")


def crossing_text(tensors: Sequence[BoundaryTensor]) -> str:
    """Bytes that these tensors carry in each step, as far as their shapes are known."""
    known = sum(tensor.bytes for tensor in tensors if tensor.bytes is not None)
    per_row = sum(tensor.bytes_per_row or 0 for tensor in tensors if tensor.bytes is None)
    unknown = sum(1 for tensor in tensors if tensor.bytes is None and not tensor.bytes_per_row)
    parts = [bytes_text(known)] if known or not (per_row or unknown) else []
    if per_row:
        parts.append("{} a row".format(bytes_text(per_row)))
    if unknown:
        parts.append("{} of unknown size".format(unknown))
    return " + ".join(parts)


def shape_text(shape: Optional[Sequence[Optional[int]]]) -> str:
    """`[?, 16]`, or `?` for an unknown rank."""
    if shape is None:
        return "?"
    return "[{}]".format(", ".join("?" if size is None else str(size) for size in shape))
