"""DeepRec's feature columns of sparse numbers, hashes and sequences that are cut off."""

from __future__ import annotations

import math
from typing import Any, Iterable, Optional, Sequence, Tuple, Union

from graph_opt.compat import tf
from graph_opt.compat.columns_of_keys import KeyColumn, table_of, with_own_table
from graph_opt.compat.embedding_columns import ColumnLookup
from graph_opt.compat.sparse_columns import (
    CutoffColumn,
    SparseBucketizedColumn,
    SparseNumericColumn,
)
from graph_opt.embedding import column_scope
from graph_opt.embedding_variable.columns import TableByKey, checked
from graph_opt.embedding_variable.lookups import safe_embedding_lookup_sparse
from graph_opt.embedding_variable.option_classes import EmbeddingVariableOption

_SIDES = ("left", "right")
_FARM = "farm"


def sparse_numeric_column(
    key: str, shape: Union[int, Iterable[int], None] = None, dtype: Any = tf.int64
) -> SparseNumericColumn:
    """Numbers of a sparse feature: ids of `hash_table_column`, or float32 input of a layer.

    Args:
      key: Name of the feature, a SparseTensor.
      shape: Of the numbers of a row; an integer for one dimension. None is enough for what takes
        ids. A layer gets zeros where there is no number.
      dtype: Of the feature: an integer or floating type.

    Returns:
      The column; also the source of `sparse_bucketized_column`.

    Raises:
      TypeError: A dimension is no integer.
      ValueError: A dimension is below 1, or there is no such dtype.

    Example:
      >>> price = tf.feature_column.sparse_numeric_column("price", shape=3, dtype=tf.float32)
      >>> layer = tf.feature_column.input_layer(features, [price])
    """
    _check_key(key)
    dtype = tf.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(
            "sparse_numeric_column {!r}: dtype is {}; need an integer or floating type".format(
                key, dtype.name
            )
        )
    return SparseNumericColumn(key, None if shape is None else _shape(key, shape), dtype)


def sparse_bucketized_column(
    source_column: Any, boundaries: Sequence[float]
) -> SparseBucketizedColumn:
    """Numbers of a sparse feature as ids of the buckets that they are in.

    Args:
      source_column: A `sparse_numeric_column`, or a `numeric_column`, of which zeros are left out.
      boundaries: Ascending. The buckets are below the first, from it to below the second, and so
        on: one more than boundaries.

    Returns:
      A categorical column; as input of a layer one-hot vectors, bucket 0 where there is no number.

    Raises:
      ValueError: The source is another column or has more than one dimension, or there are no
        boundaries, or they do not ascend.

    Example:
      >>> price = tf.feature_column.sparse_numeric_column("price", dtype=tf.float32)
      >>> of_price = tf.feature_column.sparse_bucketized_column(price, [1.0, 10.0, 100.0])
      >>> column = tf.feature_column.embedding_column(of_price, 4)
    """
    numeric = type(tf.feature_column.numeric_column("any"))
    if not isinstance(source_column, (SparseNumericColumn, numeric)):
        raise ValueError(
            "sparse_bucketized_column: source_column is {}; need a sparse_numeric_column or "
            "numeric_column".format(source_column)
        )
    if len(source_column.shape or ()) > 1:
        raise ValueError(
            "sparse_bucketized_column: source_column has the shape {}; need one dimension".format(
                source_column.shape
            )
        )
    found = tuple(boundaries)
    if not found or any(one >= other for one, other in zip(found, found[1:])):
        raise ValueError(
            "sparse_bucketized_column: boundaries are {}; need one or more, ascending".format(found)
        )
    return SparseBucketizedColumn(source_column, found)


def cutoff_categorical_column(
    categorical_column: Any,
    cutoff_length: int,
    cutoff_side: str = "right",
    cutoff_axis: int = 1,
    reverse: bool = False,
) -> CutoffColumn:
    """A column with at most so many ids of another, the first or the last ones.

    Args:
      categorical_column: Any categorical column, also a weighted one.
      cutoff_length: How many places along the axis are kept; the ids have that size there.
      cutoff_side: What is dropped: `right` for what follows the first `cutoff_length` places,
        `left` for what precedes the last ones, up to the last id of each row. These move to the
        first places.
      cutoff_axis: Of the ids; at least 1.
      reverse: Whether the ids that are left are in reverse order then, up to the last of each row.

    Returns:
      A categorical column with the buckets, or the table by key, of `categorical_column`.

    Raises:
      ValueError: The length or the axis is below 1, or there is no such side.

    Example:
      >>> visits = tf.feature_column.categorical_column_with_embedding("visits", tf.int64)
      >>> latest = tf.feature_column.cutoff_categorical_column(visits, 10, "left")
      >>> column = tf.feature_column.embedding_column(latest, 16)
    """
    for name, value in (("cutoff_length", cutoff_length), ("cutoff_axis", cutoff_axis)):
        if value is None or value < 1:
            raise ValueError(
                "cutoff_categorical_column: {} is {}; need 1 or more".format(name, value)
            )
    if cutoff_side not in _SIDES:
        raise ValueError(
            "cutoff_categorical_column: cutoff_side is {!r}; need 'left' or 'right'".format(
                cutoff_side
            )
        )
    return CutoffColumn(categorical_column, cutoff_length, cutoff_side, cutoff_axis, reverse)


def categorical_column_with_hash(
    key: str, hash_type: str = _FARM, allow_neg: bool = True, dtype: Any = tf.string
) -> KeyColumn:
    """A column of 64-bit hashes, which are keys of an EmbeddingVariable or a hash table.

    Integers are hashed as the strings that they are written as. '' and -1 of a dense feature are
    left out.

    Args:
      key: Name of the feature.
      hash_type: `farm`: FarmHash's `Fingerprint64`, as of `tf.strings.to_hash_bucket_fast`.
      allow_neg: Whether hashes may be below 0, and are looked up like others then; else they lack
        the highest bit. A linear model needs False.
      dtype: Of the feature: tf.string, or an integer type.

    Returns:
      A categorical column for `embedding_column` and `hash_table_column`.

    Raises:
      ValueError: There is no such dtype, or the hash is another one.

    Example:
      >>> words = tf.feature_column.categorical_column_with_hash("words", allow_neg=False)
      >>> column = tf.feature_column.hash_table_column(words, 16)
    """
    _check_key(key)
    if hash_type != _FARM:
        raise ValueError(
            "categorical_column_with_hash: hash_type is {!r}; TensorFlow has 'farm' alone".format(
                hash_type
            )
        )

    def hashes(values: tf.Tensor) -> tf.Tensor:
        texts = values if values.dtype == tf.string else tf.as_string(values)
        bits = tf.bitcast(tf.raw_ops.Fingerprint(data=texts, method="farmhash64"), tf.int64)
        return bits if allow_neg else tf.bitwise.bitwise_and(bits, tf.int64.max)

    return KeyColumn(key, checked(key, dtype), _TableOfHashes(allow_neg), hashes)


class _TableOfHashes(TableByKey):
    """Makes an EmbeddingVariable whose keys may be below 0, which other lookups drop."""

    def __init__(self, has_negative: bool, partitioner: Any = None) -> None:
        super().__init__(EmbeddingVariableOption(), partitioner)
        self.has_weights = not has_negative
        self.look_up = _look_all_up if has_negative else None


def _look_all_up(lookup: ColumnLookup) -> tf.Tensor:
    column = lookup.column
    return safe_embedding_lookup_sparse(
        lookup.table,
        lookup.ids,
        lookup.weights,
        column.combiner,
        name="{}_weights".format(column.name),
        max_norm=column.max_norm,
        prune=False,
    )


def hash_table_column(
    categorical_column: Any,
    dimension: int,
    dtype: Any = None,
    initializer: Any = None,
    combiner: Optional[str] = None,
    partitioner: Any = None,
    trainable: bool = True,
    embedding_lookup_hooks: Any = (),
    coalesced_scope: Any = None,
) -> Any:
    """An embedding column whose table has a row for each id that came, whatever its value.

    The table is an EmbeddingVariable.

    Args:
      categorical_column: Any categorical column, or a `sparse_numeric_column` of integers.
      dimension: Number of columns of the table; > 0.
      dtype: tf.float32.
      initializer: Of rows; truncated normal by default, with a standard deviation of
        1 / sqrt(dimension).
      combiner: `mean` by default, `sqrtn` or `sum`.
      partitioner: Of the table, also a `tf.hash_table.FixedSizeHashTablePartitioner`; None for that
        of the variable scope.
      trainable: Whether optimizers update it.
      embedding_lookup_hooks: Not supported; `ev_option` of `categorical_column_with_embedding` has
        filters.
      coalesced_scope: As for `embedding_column`.

    Returns:
      A dense column.

    Raises:
      ValueError: An argument is not supported.

    Example:
      >>> visits = tf.feature_column.sparse_numeric_column("visits")
      >>> layer = tf.feature_column.input_layer(
      ...     features, [tf.feature_column.hash_table_column(visits, 16)]
      ... )
    """
    if dimension is None or dimension < 1:
        raise ValueError("hash_table_column: dimension is {}; need 1 or more".format(dimension))
    if dtype is not None and tf.as_dtype(dtype) != tf.float32:
        raise ValueError("hash_table_column: dtype is {}; need float32".format(dtype))
    if embedding_lookup_hooks:
        raise ValueError(
            "hash_table_column: embedding_lookup_hooks are not supported; filters of "
            "categorical_column_with_embedding are in its ev_option"
        )
    if initializer is None:
        initializer = tf.truncated_normal_initializer(stddev=1 / math.sqrt(dimension))
    column = column_scope.embedding_column(
        categorical_column,
        dimension,
        combiner or "mean",
        initializer,
        trainable=trainable,
        coalesced_scope=coalesced_scope,
    )
    of_keys = table_of(categorical_column)
    if of_keys is not None and not isinstance(of_keys, TableByKey):
        raise ValueError(
            "hash_table_column: column {!r} has two tables; use embedding_column".format(
                categorical_column.name
            )
        )
    has_negative = of_keys is not None and of_keys.look_up is not None
    table = _TableOfHashes(has_negative, partitioner)
    return with_own_table(column, table, "{}_hash_table".format(categorical_column.name))


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise ValueError("column: key is {!r}; need a string".format(key))


def _shape(key: str, shape: Union[int, Iterable[int]]) -> Tuple[int, ...]:
    found = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in found:
        if not isinstance(size, int):
            raise TypeError(
                "sparse_numeric_column {!r}: {!r} in shape; need integers".format(key, size)
            )
        if size < 1:
            raise ValueError(
                "sparse_numeric_column {!r}: {} in shape; need 1 or more".format(key, size)
            )
    return found
