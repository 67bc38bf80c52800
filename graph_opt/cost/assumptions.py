"""What a graph does not say and a plan needs: how large batches are, and what is in them."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Iterable, Optional, Pattern, Tuple

from graph_opt.compat import tf

BATCH = "--batch N"
IDS_PER_ROW = "--ids-per-row"
DISTINCT_SHARE = "--distinct-share"
LENGTH = "--length"


@dataclasses.dataclass(frozen=True)
class NumberFor:
    """A number for whatever a pattern finds.

    Attributes:
      pattern: Searched for in names; None fits all.
      number: The number.
    """

    pattern: Optional[Pattern[str]]
    number: float

    @classmethod
    def parse(cls, option: str, text: str) -> NumberFor:
        """Reads `NUMBER`, or `REGEX=NUMBER`.

        Raises:
          tf.errors.InvalidArgumentError: It is neither.

        Example:
          >>> NumberFor.parse("--ids-per-row", "users=20").number
          20.0
        """
        expression, equals, digits = text.rpartition("=")
        try:
            number = float(digits)
            pattern = re.compile(expression) if equals else None
        except (ValueError, re.error) as error:
            raise _wrong(option, text, str(error)) from error
        if not (math.isfinite(number) and number >= 0.0):
            raise _wrong(option, text, "the number must be 0 or more")
        return cls(pattern, number)

    def fits(self, name: str) -> bool:
        """Whether the number is for what has this name."""
        return self.pattern is None or self.pattern.search(name) is not None


@dataclasses.dataclass(frozen=True)
class Assumptions:
    """What is told about batches.

    Attributes:
      batch: Rows of a batch; None if nobody told.
      ids_per_row: Ids that a row has on average, by table. The last one that fits counts.
      distinct_share: Different ids of a batch, as a share of its ids, by table.
      lengths: First dimensions of tensors, by the tensors' names.
      notes: Where these come from, a line each.
    """

    batch: Optional[int] = None
    ids_per_row: Tuple[NumberFor, ...] = ()
    distinct_share: Tuple[NumberFor, ...] = ()
    lengths: Tuple[NumberFor, ...] = ()
    notes: Tuple[str, ...] = ()

    def ids_of(self, names: Iterable[str]) -> Optional[float]:
        """Ids that a row has for tables, or tensors, of these names."""
        return _last(self.ids_per_row, names)

    def share_of(self, name: str) -> Optional[float]:
        """Which share of a batch's ids for a table are different ones."""
        return _last(self.distinct_share, (name,))

    def length_of(self, name: str) -> Optional[float]:
        """The first dimension of the tensor with this name."""
        return _last(self.lengths, (name,))


def _last(numbers: Tuple[NumberFor, ...], names: Iterable[str]) -> Optional[float]:
    known = tuple(names)
    for one in reversed(numbers):
        if any(one.fits(name) for name in known):
            return one.number
    return None


def _wrong(option: str, text: str, why: str) -> Exception:
    message = "{} {!r}: need NUMBER or REGEX=NUMBER: {}".format(option, text, why)
    return tf.errors.InvalidArgumentError(None, None, message)
