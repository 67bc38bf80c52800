"""The records of several ranks as that of one run."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

from graph_opt.checking.records import Facts, Run


def run_of_ranks(ranks: Sequence[Run]) -> Run:
    """All that the ranks of a run have recorded, those of a step side by side.

    Args:
      ranks: What each has recorded.
    """
    steps = [step._replace(rank=rank) for rank, run in enumerate(ranks) for step in run.steps]
    variables = [end._replace(rank=rank) for rank, run in enumerate(ranks) for end in run.variables]
    steps.sort(key=lambda step: step.updates)
    return Run(steps, variables, _joined([run.facts for run in ranks]))


def _joined(facts: Sequence[Facts]) -> Facts:
    """What is known of any of the ranks; a limit is reached if all have reached it."""
    found = Facts(**{name: _any([getattr(one, name) for one in facts]) for name in Facts._fields})
    return found._replace(reached_limit=all(one.reached_limit for one in facts))


def _any(values: Sequence[Any]) -> Any:
    if not isinstance(values[0], tuple):
        return next((value for value in values if value), values[0])
    found: Tuple[Any, ...] = ()
    for value in values:
        found += tuple(each for each in value if each not in found)
    return found
