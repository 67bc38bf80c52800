"""How the workloads run tf.data: its own parallel map and prefetch, at fixed sizes."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import tensorflow.compat.v1 as tf

PARALLEL_CALLS = 4
BATCHES_READY = 4


class Part(NamedTuple):
    """Every `of`-th batch, from batch `number` on: what one of several ranks trains on."""

    number: int
    of: int


ALL = Part(0, 1)


def decoded_ahead(
    blocks: tf.data.Dataset, decode: Callable[..., Any], part: Part = ALL
) -> tf.data.Dataset:
    """Decodes blocks side by side, in order, and keeps some batches ready.

    The sizes are fixed, and tf.data's tuning is off: four decoders feed any of the models several
    times over, and the thread that tunes sleeps for up to a minute, for which the end of a session
    would have to wait.

    Args:
      blocks: undecoded batches.
      decode: makes an element of the result from one of `blocks`.
      part: which of them.
    """
    if part != ALL:
        blocks = blocks.shard(part.of, part.number)
    options = tf.data.Options()
    if hasattr(options, "autotune"):
        options.autotune.enabled = False
    else:  # TensorFlow 1
        options.experimental_optimization.autotune = False
    decoded = blocks.map(decode, num_parallel_calls=PARALLEL_CALLS)
    return decoded.prefetch(BATCHES_READY).with_options(options)
