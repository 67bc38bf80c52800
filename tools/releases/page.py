"""The table of docs/releases.md."""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Sequence

from tools.releases.outcome import Outcome

_TABLE = re.compile(r"(?<=<!-- releases -->\n)((?:\|.*\n){2})((?:\|.*\n)*)(?=<!-- end -->)")
_RELEASE = re.compile(r"\| ([\d.]+)")


def with_rows(page: str, outcomes: Iterable[Outcome]) -> str:
    """The page with new rows for these releases, in the order of their numbers.

    Raises:
      ValueError: The page has no table.
    """
    found = _TABLE.search(page)
    if found is None:
        raise ValueError("the page has no table between <!-- releases --> and <!-- end -->")
    rows: Dict[str, str] = {_release_of(row): row for row in found.group(2).splitlines()}
    rows.update((outcome.release, _row(outcome)) for outcome in outcomes)
    ordered = sorted(rows, key=lambda release: [int(part) for part in release.split(".")])
    table = found.group(1) + "".join(rows[release] + "\n" for release in ordered)
    return page[: found.start()] + table + page[found.end() :]


def _release_of(row: str) -> str:
    found = _RELEASE.match(row)
    if found is None:
        raise ValueError("not a row of a release: " + row)
    return found.group(1)


def _row(outcome: Outcome) -> str:
    cells: Sequence[str] = (
        outcome.release,
        "{:,}".format(outcome.passed),
        str(outcome.failed),
        _skipped(outcome),
        *_speeds(outcome),
        outcome.date,
    )
    return "| {} |".format(" | ".join(cells))


def _skipped(outcome: Outcome) -> str:
    counts = sorted(outcome.skipped.items(), key=lambda each: (-each[1], each[0]))
    return "; ".join("{}: {}".format(count, reason) for reason, count in counts) or "none"


def _speeds(outcome: Outcome) -> List[str]:
    if outcome.demo is None:
        return ["", ""]
    demo = outcome.demo
    rates = "{:.1f} → {:.1f}".format(demo["stock"], demo["graph_opt"])
    return [rates, "**{:.1f}**".format(demo["ratio"])]
