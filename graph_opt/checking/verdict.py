"""The verdict on a rewrite, as data and as text."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from graph_opt.checking.comparison import Comparison, Difference, Scalar
from graph_opt.reporting.json_documents import json_document

EQUAL, ROUNDING, DIFFERENT, UNCHECKED = "equal", "rounding", "different", "unchecked"
_EXIT_CODES = {EQUAL: 0, ROUNDING: 0, DIFFERENT: 1, UNCHECKED: 2}
_MOST_VARIABLES = 5
_MOST_SCALARS = 8


@dataclasses.dataclass(frozen=True)
class Staleness:
    """What the updates that prefetched rows miss make of a run.

    Attributes:
      scalars: What became of each number that steps returned, such as a loss, compared with stock.
      bits_differ: How many values, of steps and variables, differ in some bit from the rewritten
        run in which nothing missed an update.
      is_rounding: Whether rounding may have made all of these differences.
      failure: How the run ended, if it failed.
    """

    scalars: Dict[str, Scalar]
    bits_differ: int
    is_rounding: bool = False
    failure: str = ""


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """What comparing a rewritten run with a stock one has shown.

    Attributes:
      verdict: `equal` (bit for bit), `rounding` (equal within rounding of float32), `different`, or
        `unchecked` if the runs cannot be compared.
      reason: Why they cannot; "" for the other verdicts.
      steps: How many steps were compared.
      updates: How many of the stock run's steps trained.
      values: How many values were compared: of fetched tensors, and of variables at the end.
      bits_differ: How many of them differ in some bit.
      first: The first difference that rounding does not explain.
      largest: The largest difference of any kind.
      variables: Variables that differ at the end by more than rounding, the largest first.
      culprit: The pass that makes the difference; "" if it is not known.
      certainty: How that is known.
      before: What the variables were like before the first step that differs.
      staleness: The same script as configured, if its lookups run ahead; None if they do not.
      unrepeatable: What may make the script's runs differ by itself.
      sessions: What became of the sessions of the rewritten run.
      notes: What else was done, a line each.
    """

    verdict: str
    reason: str = ""
    steps: int = 0
    updates: int = 0
    values: int = 0
    bits_differ: int = 0
    first: Optional[Difference] = None
    largest: Optional[Difference] = None
    variables: Tuple[Difference, ...] = ()
    culprit: str = ""
    certainty: str = ""
    before: str = ""
    staleness: Optional[Staleness] = None
    unrepeatable: Tuple[str, ...] = ()
    sessions: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 for equal runs, within rounding or not; 1 if they differ; 2 if nothing was compared."""
        return _EXIT_CODES[self.verdict]

    def of(self, comparison: Comparison) -> CheckResult:
        """The same with the numbers of a comparison."""
        return dataclasses.replace(
            self,
            steps=comparison.steps,
            values=comparison.values,
            bits_differ=comparison.bits_differ,
            first=comparison.first,
            largest=comparison.largest,
            variables=tuple(comparison.variables),
        )

    def to_dict(self) -> Dict[str, Any]:
        """Plain dicts, lists, strings and finite numbers; None for others."""
        plain: Dict[str, Any] = dataclasses.asdict(self)
        for key in ("first", "largest"):
            plain[key] = _plain(getattr(self, key))
        plain["variables"] = [_plain(one) for one in self.variables]
        if self.staleness is not None:
            plain["staleness"]["scalars"] = {
                name: _plain_scalar(one) for name, one in self.staleness.scalars.items()
            }
        return plain

    def to_json(self) -> str:
        """The result as indented JSON."""
        return json_document("check", self.to_dict())

    def __str__(self) -> str:
        lines = ["session: " + text for text in self.sessions]
        lines += ["note: " + text for text in self.notes]
        if self.verdict != UNCHECKED:
            lines.append(self._compared())
        lines.append("verdict: " + self._verdict())
        lines += self._about_difference()
        lines += ["unrepeatable: " + text for text in self._unrepeatable_shown()]
        if self.staleness is not None:
            lines += _staleness_lines(self.staleness)
        return "\n".join(lines)

    def _compared(self) -> str:
        return (
            "compared: {} values of {} steps ({} of them train) and of variables at the end".format(
                self.values, self.steps, self.updates
            )
        )

    def _verdict(self) -> str:
        if self.verdict == UNCHECKED:
            return "could not be checked: " + self.reason
        if self.verdict == EQUAL:
            return "equal bit for bit"
        if self.verdict == ROUNDING:
            text = "equal within float32 rounding; {} values differ, the most {}"
            return text.format(self.bits_differ, self.largest)
        return "different: {}".format(self.first)

    def _about_difference(self) -> List[str]:
        if self.verdict != DIFFERENT:
            return []
        lines = []
        if self.first is not None and not np.isinf(self.first.relative):
            lines.append("allowed: {:.2g} there, by rounding".format(self.first.allowed))
        if self.before:
            lines.append("before that step: " + self.before)
        shown = ["{}".format(one) for one in self.variables[:_MOST_VARIABLES] if one != self.first]
        lines += ["also: " + text for text in shown]
        if self.culprit or self.certainty:
            lines.append("pass: {}{}".format(self.culprit or "not known", _after(self.certainty)))
        return lines

    def _unrepeatable_shown(self) -> Tuple[str, ...]:
        return self.unrepeatable if self.verdict == UNCHECKED else ()


def _staleness_lines(staleness: Staleness) -> List[str]:
    title = "as configured, ahead of updates: "
    if staleness.failure:
        return [title + staleness.failure]
    if not staleness.bits_differ:
        return [title + "the same bits"]
    if staleness.is_rounding:
        return [title + "the same within float32 rounding"]
    lines = [title + "rows miss updates, so"]
    apart = [(name, one) for name, one in staleness.scalars.items() if one.largest is not None]
    for name, one in apart[:_MOST_SCALARS]:
        assert one.largest is not None
        text = "  {} ends at {:.6g} instead of {:.6g}, at most {:.2g} of its size apart, {}"
        where = one.largest.relative, one.largest.where
        lines.append(text.format(name, one.other, one.stock, *where))
    if len(apart) > _MOST_SCALARS:
        lines.append("  and {} more numbers".format(len(apart) - _MOST_SCALARS))
    if not apart:
        lines.append("  variables differ, and nothing that steps return")
    return lines


def _plain(difference: Optional[Difference]) -> Optional[Dict[str, Any]]:
    if difference is None:
        return None
    return dict(difference._asdict(), relative=_finite(difference.relative))


def _plain_scalar(scalar: Scalar) -> Dict[str, Any]:
    return {
        "stock": _finite(scalar.stock),
        "other": _finite(scalar.other),
        "largest": _plain(scalar.largest),
    }


def _finite(number: float) -> Optional[float]:
    return float(number) if np.isfinite(number) else None


def _after(text: str) -> str:
    return " ({})".format(text) if text else ""
