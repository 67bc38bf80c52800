"""What the names of a user's training step stand for once it divides its batch."""

from __future__ import annotations

from typing import Mapping, NamedTuple


class MicroBatchNames(NamedTuple):
    """Names of the user's graph that mean something else in a step that divides its batch.

    Attributes:
      scope: Name scope of what only such a step runs.
      results: Maps tensors that it computes for each micro-batch to their values for the whole
        batch; the tensors themselves compute the whole batch again.
    """

    scope: str
    results: Mapping[str, str]
