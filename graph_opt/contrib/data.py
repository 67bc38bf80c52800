"""`tf.contrib.data`, which became `tf.data.experimental`."""

from __future__ import annotations

from typing import Any, Callable

from graph_opt.compat import tf

AUTOTUNE = tf.data.experimental.AUTOTUNE
group_by_window = tf.data.experimental.group_by_window
ignore_errors = tf.data.experimental.ignore_errors
make_csv_dataset = tf.data.experimental.make_csv_dataset
map_and_batch = tf.data.experimental.map_and_batch
parallel_interleave = tf.data.experimental.parallel_interleave
prefetch_to_device = tf.data.experimental.prefetch_to_device
shuffle_and_repeat = tf.data.experimental.shuffle_and_repeat
unbatch = tf.data.experimental.unbatch


def batch_and_drop_remainder(batch_size: Any) -> Callable[[Any], Any]:
    """For `Dataset.apply`: batches of equal size.

    Args:
      batch_size: Number of elements of a batch.
    """
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)
