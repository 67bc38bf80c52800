"""The options of micro-batches as validated values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from graph_opt.config.option_checks import check_choice, fail

PARTS, BATCHES = "parts", "batches"
MICRO_BATCH_RULES = (PARTS, BATCHES)
"""A micro-batch is a part of a batch, and the update is the whole batch's; or it is a batch of its
own, and the update is by the sum of their gradients, which is DeepRec's rule."""
EITHER = ""
"""Parts, or batches where rows of a batch depend on each other."""
_OPTIMIZER = "graph_options.optimizer_options"


@dataclass(frozen=True)
class MicroBatchOptions:
    """What a step that trains computes one after the other.

    Attributes:
      number: How many micro-batches, at least 2.
      rule: One of `MICRO_BATCH_RULES`, or `EITHER`: what a micro-batch is.
    """

    number: int
    rule: str = EITHER


def micro_batches(optimizer: Any) -> Optional[MicroBatchOptions]:
    """Reads and validates the options; None if there is one micro-batch.

    Args:
      optimizer: An OptimizerOptions message.

    Raises:
      tf.errors.InvalidArgumentError: An option is out of its range.
    """
    number, rule = optimizer.micro_batch_num, str(optimizer.micro_batch_rule)
    if number < 0:
        fail(_OPTIMIZER + ".micro_batch_num", number, 0, None)
    check_choice(_OPTIMIZER + ".micro_batch_rule", rule or PARTS, MICRO_BATCH_RULES)
    return MicroBatchOptions(number, rule) if number > 1 else None
