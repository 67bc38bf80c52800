"""The options of pipelined updates as validated values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from graph_opt.config.option_checks import fail

DEFAULT_STALENESS = 1
_STALENESS = "graph_options.optimizer_options.dense_staleness"


@dataclass(frozen=True)
class PipelineOptions:
    """How a stage applies updates and reads weights.

    Attributes:
      staleness: How many of a worker's own updates its weights miss: 0 or 1.
    """

    staleness: int = DEFAULT_STALENESS


def pipeline_options(optimizer: Any) -> Optional[PipelineOptions]:
    """Reads and validates the options; None if updates stay in their step.

    Args:
      optimizer: An OptimizerOptions message.

    Raises:
      tf.errors.InvalidArgumentError: An option is out of its range.
    """
    staleness = DEFAULT_STALENESS
    if optimizer.HasField("dense_staleness"):
        staleness = optimizer.dense_staleness
    if not 0 <= staleness <= 1:
        fail(_STALENESS, staleness, 0, 1)
    return PipelineOptions(staleness) if optimizer.pipeline_dense else None
