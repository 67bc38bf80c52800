"""How tables of docs/ are written."""

from __future__ import annotations

from typing import Optional, Tuple

from tools.bench.records import Record


def head(titles: str) -> Tuple[str, str]:
    """The first two lines of a table; titles are separated as they are there."""
    return row(titles), "|{}".format("---|" * len(titles.split(" | ")))


def row(*cells: object) -> str:
    """A line of a table."""
    return "| {} |".format(" | ".join(str(cell) for cell in cells))


def words(form: str, record: Optional[Record]) -> str:
    """The value of a record; "" where it was not measured."""
    return "" if record is None else form.format(record.value)


def gain(record: Optional[Record], at_most: Optional[float] = None) -> str:
    """A ratio, the lowest and highest of its rounds, and what it could be; "" without one."""
    if record is None:
        return ""
    said = "**{}**".format(_ratio(record.value))
    if len(record.runs) > 1:
        said += " ({} to {})".format(_ratio(min(record.runs)), _ratio(max(record.runs)))
    return said if at_most is None else "{}, at most {:.2g}".format(said, at_most)


def allowed_ratio(rate: Optional[Record], of_stock: Optional[Record]) -> Optional[float]:
    """How many times a rate the floor of another one is; None where that is not known."""
    if rate is None or rate.floor is None or of_stock is None:
        return None
    return rate.floor / of_stock.value


def _ratio(value: float) -> str:
    return "{:.2f}".format(value) if value < 10 else "{:.3g}".format(value)


def place(delay_ms: Optional[float]) -> str:
    """Where tables are that are so many milliseconds away."""
    return "in the process" if delay_ms is None else "on a server {:g} ms away".format(delay_ms)
