"""The options of shadowed steps as validated values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from graph_opt.config.option_checks import check_choice, fail

STOCK, FAIL = "stock", "fail"
REACTIONS = (STOCK, FAIL)
_OPTIONS = "graph_options.optimizer_options."


@dataclass(frozen=True)
class ShadowOptions:
    """How the first steps of a training are compared with TensorFlow's.

    Attributes:
      steps: How many are compared.
      fails: Whether a step that differs fails; if not, training goes on with TensorFlow's ops.
    """

    steps: int
    fails: bool = False


def shadow_options(optimizer: Any) -> Optional[ShadowOptions]:
    """Reads and validates the options; None if no step is compared.

    Args:
      optimizer: An OptimizerOptions message.

    Raises:
      tf.errors.InvalidArgumentError: An option is out of its range.
    """
    if optimizer.shadow_steps < 0:
        fail(_OPTIONS + "shadow_steps", optimizer.shadow_steps, 0, None)
    reaction = optimizer.shadow_difference or STOCK
    check_choice(_OPTIONS + "shadow_difference", reaction, REACTIONS)
    return (
        ShadowOptions(optimizer.shadow_steps, reaction == FAIL) if optimizer.shadow_steps else None
    )
