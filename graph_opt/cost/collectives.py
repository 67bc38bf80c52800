"""Which ops are collectives, and what they send."""

from __future__ import annotations

import re
from typing import Sequence, TypeVar

from graph_opt.rules.op_names import ALL_TO_ALL

_COLLECTIVE = re.compile(
    "^(Horovod|Collective|Nccl).*(reduce|gather|broadcast|bcast|all_?to_?all)", re.IGNORECASE
)
_GROUPED = "HorovodGrouped"
_T = TypeVar("_T")


def is_collective(op: str) -> bool:
    """Whether all ranks take part in an op; questions such as `HorovodSize` are none."""
    return op == ALL_TO_ALL or _COLLECTIVE.match(op) is not None


def tensors_given(op: str, inputs: Sequence[_T]) -> Sequence[_T]:
    """The inputs that a collective sends, each a message: the first, or all of a group."""
    return inputs if op.startswith(_GROUPED) else inputs[:1]
