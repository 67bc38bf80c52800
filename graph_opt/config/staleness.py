"""Options about how old the rows are that lookups ahead of time have read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Iterable, Optional, Sequence, Tuple

from graph_opt.config.option_checks import ASYNC, check_pattern, fail, invalid

DEFAULT_SAMPLE_STEPS = 64
_LIMIT = ASYNC + ".staleness_limit"


@dataclass(frozen=True)
class StalenessLimit:
    """How many updates rows of some tables may miss.

    Attributes:
      table: A regular expression that is part of the names of the tables' variables.
      updates: How many.
    """

    table: str
    updates: int

    def matches(self, variables: Iterable[str]) -> bool:
        """Whether it is for a table of these variables."""
        return any(re.search(self.table, name) for name in variables)


@dataclass(frozen=True)
class StalenessOptions:
    """How old rows may be, and how many steps tell it.

    Attributes:
      sample_steps: Of so many training steps, one tells how old its rows are; 0: none does.
      limits: How many updates rows may miss; of those that match a table, the first one holds.
    """

    sample_steps: int = DEFAULT_SAMPLE_STEPS
    limits: Tuple[StalenessLimit, ...] = ()

    def limit_of(self, variables: Sequence[str]) -> Optional[int]:
        """How many updates rows of the table of these variables may miss; None: any number."""
        found = next((limit for limit in self.limits if limit.matches(variables)), None)
        return None if found is None else found.updates


DEFAULT_STALENESS = StalenessOptions()


def staleness_options(options: Any) -> StalenessOptions:
    """Reads and validates the options.

    Args:
      options: An AsyncEmbeddingOptions.

    Raises:
      InvalidArgumentError: `staleness_sample_steps` is less than 0; a limit has no table, no
        regular expression, or less than 0 updates; or `exact` is set besides a limit.
    """
    if options.staleness_sample_steps < 0:
        fail(ASYNC + ".staleness_sample_steps", options.staleness_sample_steps, 0, None)
    given = options.HasField("staleness_sample_steps")
    steps = int(options.staleness_sample_steps) if given else DEFAULT_SAMPLE_STEPS
    return StalenessOptions(steps, _limits(options))


def _limits(options: Any) -> Tuple[StalenessLimit, ...]:
    limits = []
    for limit in options.staleness_limit:
        if not limit.table:
            raise invalid(
                "{}.table is not set: write the name of a variable, or '.' for all".format(_LIMIT)
            )
        check_pattern(_LIMIT + ".table", limit.table)
        if limit.updates < 0:
            fail(_LIMIT + ".updates", limit.updates, 0, None)
        limits.append(StalenessLimit(limit.table, limit.updates))
    if limits and options.exact:
        raise invalid(
            "{}.exact leaves nothing for staleness_limit: set one of the two".format(ASYNC)
        )
    return tuple(limits)
