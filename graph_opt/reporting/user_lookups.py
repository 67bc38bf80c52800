"""The lookups of a model as its author wrote them, with what became of each.

Fusing makes one op of many lookups, and the pass that moves lookups only sees that op. What it
reports is traced back to the lookups here.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional, Tuple

from graph_opt.reporting.outcomes import NO_PART, FusedLookup, LookupOutcome
from graph_opt.reporting.tables import counted

if TYPE_CHECKING:
    from graph_opt.reporting.report import Report

_OF_LOOKUPS = frozenset(
    (
        "dense_variable_upstream",
        "lookup_in_control_flow",
        "lookup_in_function",
        "marked_variable",
        "partitions_concatenated",
        "rows_not_by_ids",
        "shards_uneven",
        "table_attributes_missing",
        "table_computed",
        "table_not_supported",
    )
)


@dataclasses.dataclass(frozen=True)
class UserLookup:
    """One lookup, or several that the model's own op makes at once.

    Attributes:
      name: Readable label.
      api: The TensorFlow call that made it.
      tables: Names of the variables it reads.
      combiner: `sum`, `mean`, `sqrtn`, or None if nothing is combined.
      group: Node of the fused op that does this lookup, '' if it was not fused.
      gradient: `fused`, `stock`, or `none` if nothing trains it or nothing was to be fused.
      update: The same for the optimizer's update of its tables, or `deferred`.
      average: `deferred` or `stock`, for averages of its tables over time; `none` without them.
      stage: Stage that runs it ahead, '' if it runs in main.
      refusals: Why it, or a part of it, was left as it is: code, node, need and saw.
      count: How many lookups this is.
      output: Name of the tensor with its result.
      most_missed: How many updates its rows may miss, if it runs ahead; 0 if they are exact.
    """

    name: str
    api: str
    tables: Tuple[str, ...]
    combiner: Optional[str]
    group: str = ""
    gradient: str = NO_PART
    update: str = NO_PART
    average: str = NO_PART
    stage: str = ""
    refusals: Tuple[Dict[str, str], ...] = ()
    count: int = 1
    output: str = ""
    most_missed: Optional[int] = None

    @property
    def is_left(self) -> bool:
        """Whether it is neither fused nor moved."""
        return not self.group and not self.stage


def user_lookups(report: Report) -> Tuple[UserLookup, ...]:
    """All lookups of a graph, in its order."""
    return tuple(_with_fusion(report) if report.fused_lookups else map(_moved, report.lookups))


def lookups_elsewhere(report: Report) -> Tuple[Dict[str, str], ...]:
    """Refusals of lookups that are there, but not among `user_lookups`: code, node, need and saw.

    They are inside functions or control flow, or read their tables in ways that no pass handles.
    """
    return tuple(refusal for refusal in report.refusals if refusal["code"] in _OF_LOOKUPS)


def refusals_by_code(report: Report) -> Dict[str, List[Tuple[str, Dict[str, str]]]]:
    """Code to (name of what was refused, refusal), the most frequent code first."""
    found: Dict[str, List[Tuple[str, Dict[str, str]]]] = collections.defaultdict(list)
    for lookup in user_lookups(report):
        for refusal in lookup.refusals:
            found[refusal["code"]].extend([(lookup.name, refusal)] * lookup.count)
    for column in report.columns:
        if column.refusal is not None:
            found[column.refusal["code"]].append((column.name, column.refusal))
    for table in report.tables:
        if table.refusal is not None:
            found[table.refusal["code"]].append((table.name, table.refusal))
    for refusal in (*report.refusals, *report.not_packed, *report.not_pipelined):
        found[refusal["code"]].append((refusal["node"], refusal))
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def fused_parts(lookups: Iterable[Any], of: int) -> List[str]:
    """How many lookups share an op of ours, and how many have one each.

    Args:
      lookups: Each with a `group` and a `count`.
      of: How many lookups the graph has.

    Example:
      >>> fused_parts(lookups, 7)
      ['6 of 7 lookups fused into 2 ops', '1 in an op of its own']
    """
    sizes: Dict[str, int] = collections.Counter()
    for lookup in lookups:
        if lookup.group:
            sizes[lookup.group] += lookup.count
    shared = [size for size in sizes.values() if size > 1]
    alone = len(sizes) - len(shared)
    whole = counted(of, "lookup")
    own = "{} {}".format(alone, "in an op of its own" if alone == 1 else "in an op each")
    if shared:
        fused = "{} of {} fused into {}".format(sum(shared), whole, counted(len(shared), "op"))
        return [fused, own] if alone else [fused]
    if alone:
        return [own.replace(" ", " of {} ".format(whole), 1)]
    return ["0 of {} fused".format(whole)]


def _with_fusion(report: Report) -> Iterator[UserLookup]:
    by_output = {outcome.output: outcome for outcome in report.lookups}
    by_node = {_node(outcome): outcome for outcome in report.lookups}
    for lookup in report.fused_lookups:
        outcome = by_node.get(lookup.group) if lookup.group else by_output.get(lookup.output)
        yield _fused(lookup, outcome)
    known = {lookup.group for lookup in report.fused_lookups}
    outputs = {lookup.output for lookup in report.fused_lookups}
    for outcome in report.lookups:
        if _node(outcome) not in known and outcome.output not in outputs:
            yield _moved(outcome)  # A group lookup that the model itself calls.


def _fused(lookup: FusedLookup, outcome: Optional[LookupOutcome]) -> UserLookup:
    refusals = lookup.refusals
    if outcome is not None and outcome.refusal is not None:
        refusals = (*refusals, outcome.refusal)
    return UserLookup(
        name=lookup.name,
        api=lookup.api,
        tables=lookup.tables,
        combiner=lookup.combiner,
        group=lookup.group,
        gradient=lookup.gradient,
        update=lookup.update,
        average=lookup.average,
        stage="" if outcome is None else outcome.stage,
        refusals=refusals,
        count=lookup.count,
        output=lookup.output,
        most_missed=None if outcome is None else outcome.most_missed,
    )


def _moved(outcome: LookupOutcome) -> UserLookup:
    return UserLookup(
        name=outcome.name,
        api=outcome.api,
        tables=outcome.tables,
        combiner=outcome.combiner,
        stage=outcome.stage,
        refusals=() if outcome.refusal is None else (outcome.refusal,),
        count=outcome.count,
        output=outcome.output,
        most_missed=outcome.most_missed,
    )


def _node(outcome: LookupOutcome) -> str:
    return outcome.output.rpartition(":")[0]
