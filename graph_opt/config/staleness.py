"""Options about how old the rows are that lookups ahead of time have read."""

from __future__ import annotations

from typing import Any

from graph_opt.config.option_checks import ASYNC, fail

DEFAULT_SAMPLE_STEPS = 64


def sample_steps(options: Any) -> int:
    """Of how many training steps one is sampled; 0: none is.

    Args:
      options: An AsyncEmbeddingOptions.

    Raises:
      InvalidArgumentError: It is less than 0.
    """
    if not options.HasField("staleness_sample_steps"):
        return DEFAULT_SAMPLE_STEPS
    if options.staleness_sample_steps < 0:
        fail(ASYNC + ".staleness_sample_steps", options.staleness_sample_steps, 0, None)
    return int(options.staleness_sample_steps)
