"""DeepRec's `ParquetDataset`: batches of columns from Parquet files, read by Apache Arrow."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

from graph_opt.compat import tf
from graph_opt.compat.datasets import DATASET, from_generator, interleave
from graph_opt.input.data_frame import DataFrame, DataFrameValue
from graph_opt.input.parquet_files import Reading, fields_of, read_batches

__all__ = ["DataFrame", "ParquetDataset", "parquet_dataset", "read_parquet"]


def parquet_dataset(
    filenames: Any,
    batch_size: int = 1,
    fields: Any = None,
    partition_count: int = 1,
    partition_index: int = 0,
    drop_remainder: bool = False,
    num_parallel_reads: Optional[int] = None,
    num_sequential_reads: int = 1,
) -> Any:
    """Batches of Parquet files as a `tf.data.Dataset`.

    Each element is a dict from a column's name to a tensor [B], or for a column of lists a
    `DataFrame.Value`. No batch has rows of two files, so the last one of a file may be shorter.

    Args:
      filenames: A name or a list of names, which may be URIs that Arrow knows (`hdfs://`, `s3://`);
        or a tensor or dataset of them.
      batch_size: Rows of a batch; > 0.
      fields: Names of columns, or `DataFrame.Field`s, in a list; None for all columns. Other than
        for literal names or those of a `WorkQueue`, fields must say type and levels of lists.
      partition_count: How many readers share the files: by row groups of each file.
      partition_index: Which of them this is.
      drop_remainder: Whether to leave out shorter batches.
      num_parallel_reads: Files that are read at the same time, in no certain order; None for one.
      num_sequential_reads: Batches of one file before the next, if files are read in parallel.

    Raises:
      ImportError: pyarrow is not installed.
      ValueError: An argument is out of its range; a column is unknown, is not of the type that its
        field says, or of a type that tensors do not have; fields are missing or incomplete.
      tf.errors.NotFoundError: The first file does not exist.

    Example:
      >>> dataset = graph_opt.ParquetDataset("day_0.parquet", 512, ["user", "tags"])
      >>> dataset = dataset.map(graph_opt.DataFrame.to_sparse)
    """
    _check(batch_size, partition_count, partition_index)
    known = _known_names(filenames)
    wanted = fields_of(known[0] if known else None, fields)
    reading = Reading(batch_size, wanted, partition_count, partition_index, drop_remainder)

    def read(filename: Any) -> Any:
        return from_generator(
            lambda name: read_batches(name.decode("utf-8"), reading),
            {field.name: _signature(field, reading) for field in wanted},
            [filename],
        )

    names = _as_dataset(filenames)
    if num_parallel_reads is None or num_parallel_reads == 1:
        return names.flat_map(read)
    return interleave(names, read, num_parallel_reads, num_sequential_reads)


# DeepRec's name.
ParquetDataset = parquet_dataset


def read_parquet(batch_size: int, fields: Any = None, **options: Any) -> Callable[[Any], Any]:
    """What `tf.data.Dataset.apply` needs to read the files whose names a dataset has.

    Args:
      batch_size: As for `parquet_dataset`.
      fields: As for `parquet_dataset`.
      **options: Its other arguments.

    Example:
      >>> batches = names.apply(read_parquet(512, [DataFrame.Field("user", tf.int64, 0)]))
    """
    return lambda filenames: parquet_dataset(filenames, batch_size, fields, **options)


def _check(batch_size: int, partition_count: int, partition_index: int) -> None:
    if batch_size < 1:
        raise ValueError("ParquetDataset: batch_size is {}; need 1 or more".format(batch_size))
    if not 0 <= partition_index < partition_count:
        raise ValueError(
            "ParquetDataset: partition_index is {} of {}; need 0 or more, and less than "
            "partition_count".format(partition_index, partition_count)
        )


def _known_names(filenames: Any) -> List[str]:
    """Names of files that are known before the graph runs."""
    if isinstance(filenames, (str, bytes)):
        filenames = [filenames]
    if not isinstance(filenames, (list, tuple)):
        return list(getattr(filenames, "file_names", ()))
    if not filenames:
        raise ValueError("ParquetDataset: filenames is empty; need one or more")
    return [tf.compat.as_str(name) for name in filenames]


def _as_dataset(filenames: Any) -> Any:
    if isinstance(filenames, DATASET):
        return filenames
    names = tf.convert_to_tensor(filenames, tf.string)
    return tf.data.Dataset.from_tensor_slices(tf.reshape(names, [-1]))


def _signature(field: Any, reading: Reading) -> Any:
    """What an element has of a field."""
    rows = reading.batch_size if reading.drop_remainder else None
    if field.shape is not None:
        return tf.TensorSpec([rows, *field.shape], field.dtype)
    if not field.ragged_rank:
        return tf.TensorSpec([rows], field.dtype)
    splits = (tf.TensorSpec([None], tf.int32),) * field.ragged_rank
    return DataFrameValue(tf.TensorSpec([None], field.dtype), splits)
