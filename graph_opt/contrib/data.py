"""`tf.contrib.data`, which became `tf.data.experimental`."""

from __future__ import annotations

from typing import Any, Callable

from graph_opt.compat import tf
from graph_opt.contrib.files import missing_from

AUTOTUNE = tf.data.experimental.AUTOTUNE
Counter = tf.data.experimental.Counter
CsvDataset = tf.data.experimental.CsvDataset
Dataset = tf.data.Dataset
FixedLengthRecordDataset = tf.data.FixedLengthRecordDataset
Iterator = tf.data.Iterator
RandomDataset = tf.data.experimental.RandomDataset
SqlDataset = tf.data.experimental.SqlDataset
TFRecordDataset = tf.data.TFRecordDataset
TextLineDataset = tf.data.TextLineDataset
bucket_by_sequence_length = tf.data.experimental.bucket_by_sequence_length
choose_from_datasets = tf.data.experimental.choose_from_datasets
copy_to_device = tf.data.experimental.copy_to_device
dense_to_sparse_batch = tf.data.experimental.dense_to_sparse_batch
enumerate_dataset = tf.data.experimental.enumerate_dataset
get_single_element = tf.data.experimental.get_single_element
group_by_reducer = tf.data.experimental.group_by_reducer
group_by_window = tf.data.experimental.group_by_window
ignore_errors = tf.data.experimental.ignore_errors
make_batched_features_dataset = tf.data.experimental.make_batched_features_dataset
make_csv_dataset = tf.data.experimental.make_csv_dataset
map_and_batch = tf.data.experimental.map_and_batch
parallel_interleave = tf.data.experimental.parallel_interleave
parse_example_dataset = tf.data.experimental.parse_example_dataset
prefetch_to_device = tf.data.experimental.prefetch_to_device
rejection_resample = tf.data.experimental.rejection_resample
sample_from_datasets = tf.data.experimental.sample_from_datasets
scan = tf.data.experimental.scan
shuffle_and_repeat = tf.data.experimental.shuffle_and_repeat
unbatch = tf.data.experimental.unbatch
unique = tf.data.experimental.unique


def batch_and_drop_remainder(batch_size: Any) -> Callable[[Any], Any]:
    """For `Dataset.apply`: batches of equal size.

    Args:
      batch_size: Number of elements of a batch.
    """
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


__getattr__ = missing_from(
    __name__,
    {
        "padded_batch_and_drop_remainder": "Dataset.padded_batch(..., drop_remainder=True)",
        "range": "tf.data.Dataset.range",
        "read_batch_features": "make_batched_features_dataset",
        "sliding_window_batch": "Dataset.window",
        "sloppy_interleave": "parallel_interleave(..., sloppy=True)",
        "*": "tf.data",
    },
)
