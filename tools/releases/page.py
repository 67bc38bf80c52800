"""The tables of docs/releases.md."""

from __future__ import annotations

import re
from typing import Callable, Dict, List, Sequence

from tools.releases.outcome import Outcome

_TABLE = r"(?<=<!-- {} -->\n)((?:\|.*\n){{2}})((?:\|.*\n)*)(?=<!-- end -->)"
_RELEASE = re.compile(r"\| ([\d.]+)")


def with_rows(page: str, outcomes: Sequence[Outcome]) -> str:
    """The page with new rows for these releases, in the order of their numbers.

    Raises:
      ValueError: The page lacks a table.
    """
    page = _with_table(page, "releases", outcomes, _figures)
    return _with_table(page, "skipped", outcomes, _reasons)


def _with_table(
    page: str, name: str, outcomes: Sequence[Outcome], rows_of: Callable[[Outcome], List[str]]
) -> str:
    found = re.search(_TABLE.format(name), page)
    if found is None:
        raise ValueError("the page has no table between <!-- {} --> and <!-- end -->".format(name))
    rows: Dict[str, List[str]] = {}
    for row in found.group(2).splitlines():
        rows.setdefault(_release_of(row), []).append(row)
    rows.update((outcome.release, rows_of(outcome)) for outcome in outcomes)
    ordered = sorted(rows, key=lambda release: [int(part) for part in release.split(".")])
    table = found.group(1) + "".join(row + "\n" for release in ordered for row in rows[release])
    return page[: found.start()] + table + page[found.end() :]


def _release_of(row: str) -> str:
    found = _RELEASE.match(row)
    if found is None:
        raise ValueError("not a row of a release: " + row)
    return found.group(1)


def _figures(outcome: Outcome) -> List[str]:
    cells: Sequence[str] = (
        outcome.release,
        "{:,}".format(outcome.passed),
        str(outcome.failed),
        str(sum(outcome.skipped.values())),
        *_speeds(outcome),
        outcome.date,
    )
    return ["| {} |".format(" | ".join(cells))]


def _reasons(outcome: Outcome) -> List[str]:
    named = "TensorFlow {} ".format(outcome.release)
    counts = sorted(outcome.skipped.items(), key=lambda each: (-each[1], each[0]))
    return [
        "| {} | {} | {} |".format(outcome.release, count, reason.replace(named, "it "))
        for reason, count in counts
    ]


def _speeds(outcome: Outcome) -> List[str]:
    if outcome.demo is None:
        return ["", ""]
    demo = outcome.demo
    rates = "{:.1f} → {:.1f}".format(demo["stock"], demo["graph_opt"])
    return [rates, "**{:.1f}**".format(demo["ratio"])]
