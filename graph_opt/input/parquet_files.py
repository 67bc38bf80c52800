"""Rows of Parquet files as arrays, by Apache Arrow."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.input.data_frame import DataFrame, DataFrameValue

# Types that Arrow and TensorFlow name differently.
_NAMES = {"halffloat": "float16"}


class Reading(NamedTuple):
    """What is read of each file; see `parquet_dataset`.

    Attributes:
      batch_size: Rows of a batch.
      fields: The columns.
      partition_count: How many readers share the row groups of a file.
      partition_index: Which of them this is.
      drop_remainder: Whether to leave out shorter batches.
    """

    batch_size: int
    fields: List[Any]
    partition_count: int
    partition_index: int
    drop_remainder: bool


def fields_of(filename: Optional[str], wanted: Any) -> List[Any]:
    """The complete fields that are wanted of files.

    Args:
      filename: A file whose columns they are; None if no name is known.
      wanted: Names or `DataFrame.Field`s; None for all columns.

    Raises:
      ImportError, ValueError, tf.errors.NotFoundError: See `parquet_dataset`.
    """
    fields = None if wanted is None else [_as_field(one) for one in wanted]
    _arrow()
    if filename is None:
        if fields is None or any(field.incomplete for field in fields):
            raise ValueError(
                "ParquetDataset: filenames are known only when the graph runs; fields must be "
                "DataFrame.Field(name, dtype, ragged_rank) for each column"
            )
        return fields
    schema = _opened(filename).schema_arrow
    if fields is None:
        fields = [DataFrame.Field(name) for name in schema.names]
    return [_completed(field, schema, filename) for field in fields]


def read_batches(filename: str, reading: Reading) -> Iterator[Dict[str, Any]]:
    """Batches of a file, by columns.

    Raises:
      ValueError: A column has a null, or is not of the field's type.
    """
    for table in _tables(filename, reading):
        yield {
            field.name: _arrays(table.column(field.name), field, filename)
            for field in reading.fields
        }


def _tables(filename: str, reading: Reading) -> Iterator[Any]:
    """Tables of the rows of each batch."""
    arrow = _arrow()
    file = _opened(filename)
    for field in reading.fields:
        _completed(field, file.schema_arrow, filename)
    groups = range(reading.partition_index, file.num_row_groups, reading.partition_count)
    names = [field.name for field in reading.fields]
    size = reading.batch_size
    waiting: List[Any] = []
    rows = 0
    for batch in file.iter_batches(size, list(groups), names):
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= size:
            table = arrow.Table.from_batches(waiting)
            yield table.slice(0, size)
            waiting = table.slice(size).to_batches()
            rows -= size
    if rows and not reading.drop_remainder:
        yield arrow.Table.from_batches(waiting)


def _arrays(column: Any, field: Any, filename: str) -> Any:
    array = _without_nulls(column.combine_chunks(), field, filename)
    splits = []
    for _ in range(field.ragged_rank):
        offsets = array.offsets.to_numpy()
        splits.append((offsets - offsets[0]).astype(np.int32))
        array = _without_nulls(array.flatten(), field, filename)
    values = _values(array, field)
    if field.shape is not None:
        return values.reshape((-1, *field.shape))
    return DataFrameValue(values, tuple(splits)) if splits else values


def _without_nulls(array: Any, field: Any, filename: str) -> Any:
    if array.null_count:
        raise ValueError(
            "{}: column {!r} has a null, for which there is no tensor; fill nulls when the file is "
            "written".format(filename, field.name)
        )
    arrow = _arrow()
    if arrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if arrow.types.is_fixed_size_list(array.type):
        # Older releases of Arrow cannot cast it.
        ends = np.arange(len(array) + 1, dtype=np.int32) * array.type.list_size
        array = arrow.ListArray.from_arrays(ends, array.flatten())
    return array


def _values(array: Any, field: Any) -> np.ndarray:
    if field.dtype == tf.string:
        array = array.cast(_arrow().large_binary())
    values: np.ndarray = array.to_numpy(zero_copy_only=False)
    return values if field.dtype == tf.string else values.astype(field.dtype.as_numpy_dtype)


def _as_field(wanted: Any) -> Any:
    return wanted if isinstance(wanted, DataFrame.Field) else DataFrame.Field(str(wanted))


def _completed(field: Any, schema: Any, filename: str) -> Any:
    """The field as the file has it."""
    if field.name not in schema.names:
        raise ValueError(
            "{}: there is no column {!r}; columns are {}".format(
                filename, field.name, ", ".join(schema.names)
            )
        )
    kind = schema.field(field.name).type
    dtype, rank = _tensor_type(kind)
    if dtype is None:
        raise ValueError(
            "{}: column {!r} is of type {}, which tensors do not have; leave it out of "
            "fields".format(filename, field.name, kind)
        )
    if field.dtype not in (None, dtype) or field.ragged_rank not in (None, rank):
        raise ValueError(
            "{}: column {!r} has {} in {} levels of lists, unlike {!r}".format(
                filename, field.name, dtype.name, rank, field
            )
        )
    return DataFrame.Field(field.name, dtype, rank, field.shape)


def _tensor_type(kind: Any) -> Any:
    """The type of a column's values, None if there is none, and its levels of lists."""
    types = _arrow().types
    rank = 0
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
        rank += 1
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        return tf.string, rank
    if types.is_binary(kind) or types.is_large_binary(kind):
        return tf.string, rank
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return tf.as_dtype(_NAMES.get(str(kind), str(kind))), rank
    return None, rank


def _opened(filename: str) -> Any:
    _arrow()
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(filename)
    except FileNotFoundError as error:
        raise tf.errors.NotFoundError(None, None, "{}: no such file".format(filename)) from error
    except _arrow().ArrowInvalid as error:
        raise ValueError("{}: not a Parquet file ({})".format(filename, error)) from error


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            "ParquetDataset needs pyarrow: pip install 'graph_opt[parquet]'"
        ) from error
    return pyarrow
