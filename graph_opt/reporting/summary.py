"""The outcome of a session's optimization, in one line."""

from __future__ import annotations

import dataclasses
from typing import Iterable, Iterator, List, Sequence

from graph_opt.reporting.outcomes import DEFERRED_PART, FUSED_PART, MOVED, STOCK_PART
from graph_opt.reporting.report import Report
from graph_opt.reporting.tables import bytes_text, counted
from graph_opt.reporting.user_lookups import (
    UserLookup,
    fused_parts,
    lookups_elsewhere,
    refusals_by_code,
    user_lookups,
)

_MOST_CODES = 3


def summary(report: Report) -> str:
    """What was fused and moved, in lookups as the user wrote them, and what was left.

    Example:
      >>> summary(report)
      '26 of 27 lookups fused into 2 ops, 25 of 27 run ahead, 1 left as it is (shards_uneven)'
    """
    divided = _divided(report)
    rest = _lookups_and_stages(report)
    return "{}; {}".format(divided, rest) if divided and rest else divided or rest


def _divided(report: Report) -> str:
    """What became of the tables that were to be sharded across ranks; "" if none were."""
    tables = report.sharded
    if not report.tables:
        return ""
    text = "{} of {} sharded across ranks".format(
        len(tables), counted(len(report.tables), "large table")
    )
    if not tables:
        return text
    whole, here = (sum(getattr(one, name) for one in tables) for name in ("bytes", "bytes_here"))
    return "{} (this one holds {} instead of {})".format(text, bytes_text(here), bytes_text(whole))


def _lookups_and_stages(report: Report) -> str:
    lookups = user_lookups(report)
    if not lookups and report.tables:
        return "; ".join([*_staged(report), *report.changes, *report.left_alone])
    if not lookups and (report.smart_stage or report.micro_batches):
        return "; ".join([*_staged(report), *report.left_alone])
    if not lookups and report.stages:
        return "{} of {} columns without a table run ahead of the step".format(
            sum(column.outcome == MOVED for column in report.columns), len(report.columns)
        )
    if not lookups and report.changes:
        return "; ".join([*report.changes, *report.left_alone])
    if not lookups:
        return "not optimized: {}".format("; ".join(report.left_alone) or _none_found(report))
    return "; ".join([", ".join(_parts(report, lookups)), *_staged(report), *report.left_alone])


def _none_found(report: Report) -> str:
    elsewhere = lookups_elsewhere(report)
    if not elsewhere:
        return "the graph has no embedding lookup"
    return "{} left as {} ({})".format(
        counted(len(elsewhere), "lookup"),
        "it is" if len(elsewhere) == 1 else "they are",
        _codes(report),
    )


def _staged(report: Report) -> List[str]:
    return [line for line in (report.smart_stage, report.micro_batches) if line]


def _parts(report: Report, lookups: Sequence[UserLookup]) -> List[str]:
    """What became of lookups, in the order in which it is told."""
    elsewhere = len(lookups_elsewhere(report))
    count = _count(lookups) + elsewhere
    parts: List[str] = []
    if report.fused_lookups:
        parts.extend(fused_parts(lookups, count))
        parts.extend(_updates(lookups))
        parts.extend(_left_parts(lookups))
    if report.lookups:
        moved = _count(lookup for lookup in lookups if lookup.stage)
        of = count if parts else counted(count, "lookup")
        parts.append("{} of {} run ahead of the step".format(moved, of))
        parts[-1] += _exactness(lookups, moved)
    python = sum(stage.python_functions for stage in report.stages)
    if python:
        parts.append("{} called ahead, too".format(counted(python, "Python function")))
    left = _count(lookup for lookup in lookups if lookup.is_left) + elsewhere
    codes = _codes(report)
    if left:
        parts.append("{} left as {}".format(left, "it is" if left == 1 else "they are"))
    if codes:
        parts[-1] += " ({})".format(codes)
    dense = sum(reader.in_each_step for reader in report.dense_readers)
    if dense:
        parts.append("{} of whole tables in each step".format(counted(dense, "read")))
    return parts


def _exactness(lookups: Iterable[UserLookup], moved: int) -> str:
    """How many of those that run ahead have exact rows."""
    exact = _count(each for each in lookups if each.stage and each.most_missed == 0)
    if not exact:
        return ""
    return " with exact rows" if exact == moved else ", {} of them with exact rows".format(exact)


def _updates(lookups: Iterable[UserLookup]) -> Iterator[str]:
    """What became of the updates and averages of tables, if some are deferred."""
    fused = {one.tables for one in lookups if one.update in (FUSED_PART, DEFERRED_PART)}
    deferred = {one.tables for one in lookups if one.update == DEFERRED_PART}
    if deferred:
        told = "all" if deferred == fused else str(len(deferred))
        yield "updates of {} fused ({} deferred)".format(counted(len(fused), "table"), told)
    averages = {one.tables for one in lookups if one.average == DEFERRED_PART}
    if averages:
        yield "moving averages of {} deferred".format(counted(len(averages), "table"))


def _left_parts(lookups: Iterable[UserLookup]) -> Iterator[str]:
    """What fused lookups keep of TensorFlow's."""
    fused = [lookup for lookup in lookups if lookup.group]
    updates = {lookup.tables for lookup in fused if lookup.update == STOCK_PART}
    averages = {lookup.tables for lookup in fused if lookup.average == STOCK_PART}
    for part, left, of in (
        ("gradients", _count(one for one in fused if one.gradient == STOCK_PART), "lookup"),
        ("updates", len(updates), "table"),
        ("moving averages", len(averages), "table"),
    ):
        if left:
            yield "{} of {} left to TensorFlow".format(part, counted(left, of))


def details_wanted(report: Report) -> bool:
    """Whether the summary leaves out why something was not done."""
    dense = any(reader.in_each_step for reader in report.dense_readers)
    return bool(_refusals(report) or report.warnings or dense)


def _refusals(report: Report) -> Iterable[str]:
    """Codes of refusals, other than of tensors that travel alone: they are no part of lookups."""
    return refusals_by_code(dataclasses.replace(report, not_packed=()))


def _count(lookups: Iterable[UserLookup]) -> int:
    return sum(lookup.count for lookup in lookups)


def _codes(report: Report) -> str:
    codes = list(_refusals(report))
    more = len(codes) - _MOST_CODES
    named = codes[:_MOST_CODES] + (["{} more".format(more)] if more > 0 else [])
    return ", ".join(named)
