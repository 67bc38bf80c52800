"""The parts of a variable."""

from __future__ import annotations

from typing import Any, List

from tensorflow.python.ops import variables


def parts_of(variable: Any) -> List[Any]:
    """The parts of a PartitionedVariable, in order; anything else is its own and only part."""
    if isinstance(variable, variables.PartitionedVariable):
        return list(variable)
    return [variable]
