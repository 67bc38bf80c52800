"""What the names of a user's training step stand for once a stage applies its updates."""

from __future__ import annotations

from typing import FrozenSet, Mapping, NamedTuple, Tuple


class PipelinedNames(NamedTuple):
    """Names of the user's graph that mean something else in a step that leaves updates to a stage.

    Attributes:
      push: Operation by which such a step leaves its gradients to the stage.
      updates: What the stage applies.
      ends: For operations that are not in main, and end such a step, those that main runs instead.
      counters: For variables with numbers of steps that the stage counts, the tensor that main has
        in the place of their values.
      counts: For tensors with such a number after its update, the tensor that main computes.
      counting: Nodes that come after the updates of such numbers.
    """

    push: str
    updates: FrozenSet[str]
    ends: Mapping[str, Tuple[str, ...]]
    counters: Mapping[str, str]
    counts: Mapping[str, str]
    counting: FrozenSet[str]
