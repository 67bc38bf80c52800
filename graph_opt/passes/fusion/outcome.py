"""What became of each lookup that the fusing pass found, for the report."""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Dict, Optional, Sequence, Set, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.passes.fusion.candidates import Candidate, CandidateSearch
from graph_opt.reporting.outcomes import (
    DEFERRED_PART,
    FUSED_PART,
    NO_PART,
    STOCK_PART,
    FusedLookup,
)
from graph_opt.rules.lookup import FUSED_APIS, Lookup


@dataclasses.dataclass
class Outcome:
    """The outcome of a run of the pass, by name of the lookups' results.

    Attributes:
      refused: Why a lookup is not fused at all.
      gradient_refused: Why its gradient is not.
      update_refused: Why the update of its tables is not.
      groups: The new node that looks it up.
      gradients: Lookups whose gradient is fused.
      updates: Lookups whose tables' update is fused.
      deferred: Those whose tables' update is deferred.
      averages_refused: Why the average of a table is not deferred, by name of the table.
      averages: Tables with an average that may be deferred.
      averages_deferred: Those of which it is.
    """

    refused: Dict[str, Refusal]
    gradient_refused: Dict[str, Refusal] = dataclasses.field(default_factory=dict)
    update_refused: Dict[str, Refusal] = dataclasses.field(default_factory=dict)
    groups: Dict[str, str] = dataclasses.field(default_factory=dict)
    gradients: Set[str] = dataclasses.field(default_factory=set)
    updates: Set[str] = dataclasses.field(default_factory=set)
    deferred: Set[str] = dataclasses.field(default_factory=set)
    averages_refused: Dict[str, Refusal] = dataclasses.field(default_factory=dict)
    averages: Set[str] = dataclasses.field(default_factory=set)
    averages_deferred: Set[str] = dataclasses.field(default_factory=set)


def fused_lookups(search: CandidateSearch, outcome: Outcome) -> Tuple[FusedLookup, ...]:
    """One entry for each lookup of the graph, those that the model itself fuses last."""
    candidates = {candidate.name: candidate for candidate in search.candidates}
    own = [one for one in search.lookups if _is_own_op(one, outcome)]
    found = [
        _described(one, candidates.get(str(one.output)), outcome)
        for one in search.lookups
        if one not in own
    ]
    return (*found, *(_fused_by_model(one, outcome) for one in (*own, *search.fused)))


def _is_own_op(lookup: Lookup, outcome: Outcome) -> bool:
    """Whether a lookup stays the op of ours that the model calls."""
    return lookup.api in FUSED_APIS and str(lookup.output) not in outcome.groups


def _fused_by_model(lookup: Lookup, outcome: Outcome) -> FusedLookup:
    """A lookup by an op of ours: only the update of its tables was left to fuse."""
    name = str(lookup.output)
    trained = name in outcome.updates or name in outcome.update_refused
    reasons = [outcome.update_refused.get(name)]
    reasons += [outcome.averages_refused.get(table.name) for table in lookup.tables[:1]]
    found = _entry(lookup, lookup.output.node, _part(trained, True), trained, reasons, outcome)
    return dataclasses.replace(found, count=len(lookup.ids))


def _described(lookup: Lookup, candidate: Optional[Candidate], outcome: Outcome) -> FusedLookup:
    name = str(lookup.output)
    reasons: Sequence[Optional[Refusal]] = (
        lookup.larger,
        outcome.refused.get(name),
        candidate.backward_refusal if candidate else None,
        outcome.gradient_refused.get(name),
        outcome.update_refused.get(name),
        *(outcome.averages_refused.get(table.name) for table in lookup.tables[:1]),
    )
    trained = candidate is not None and bool(candidate.gradients or candidate.backward_refusal)
    trained = trained or name in outcome.updates or name in outcome.update_refused
    # The gradients of a table that several lookups read may be those of the others alone.
    has_gradient = trained and (candidate is None or _has_gradient(candidate, outcome))
    gradient = _part(has_gradient, name in outcome.gradients)
    return _entry(lookup, outcome.groups.get(name, ""), gradient, trained, reasons, outcome)


def _entry(
    lookup: Lookup,
    group: str,
    gradient: str,
    trained: bool,
    reasons: Sequence[Optional[Refusal]],
    outcome: Outcome,
) -> FusedLookup:
    name = str(lookup.output)
    return FusedLookup(
        name=lookup.name,
        api=lookup.api,
        tables=tuple(table.name for table in lookup.tables),
        combiner=lookup.combiner,
        output=name,
        group=group,
        gradient=gradient,
        update=_update(trained, name, outcome),
        average=_average({table.name for table in lookup.tables}, outcome),
        refusals=tuple(reason.to_dict() for reason in reasons if reason is not None),
    )


def _has_gradient(candidate: Candidate, outcome: Outcome) -> bool:
    found = candidate.gradients or candidate.backward_refusal
    return bool(found) or candidate.name in outcome.gradient_refused


def _update(trained: bool, name: str, outcome: Outcome) -> str:
    return DEFERRED_PART if name in outcome.deferred else _part(trained, name in outcome.updates)


def _average(tables: AbstractSet[str], outcome: Outcome) -> str:
    if not tables.isdisjoint(outcome.averages_deferred):
        return DEFERRED_PART
    return _part(not tables.isdisjoint({*outcome.averages, *outcome.averages_refused}), False)


def _part(exists: bool, fused: bool) -> str:
    if not exists:
        return NO_PART
    return FUSED_PART if fused else STOCK_PART
