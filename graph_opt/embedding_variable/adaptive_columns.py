"""DeepRec's adaptive columns: rare ids share rows of a small table, others have their own."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.compat.columns_of_keys import KeyColumn, TableOfColumn
from graph_opt.compat.embedding_columns import ColumnLookup
from graph_opt.embedding_variable.adaptive_lookups import stitched_rows
from graph_opt.embedding_variable.get_embedding_variable import VariableRequest
from graph_opt.embedding_variable.option_classes import EmbeddingVariableOption

_WEIGHTS = "embedding_weights"


class AdaptiveTable(NamedTuple):
    """The two tables of a column.

    Attributes:
      hashed: A variable with a row for each bucket.
      of_keys: An EmbeddingVariable.
    """

    hashed: Any
    of_keys: Any


class TableOfAdaptiveColumn(TableOfColumn):
    """Makes both tables of a column's embedding.

    Args:
      buckets: Number of rows that rare ids share.
      partition_num: Number of parts of the EmbeddingVariable; None for what the scope says.
      option: Of the EmbeddingVariable.
    """

    has_weights = False

    def __init__(
        self, buckets: int, partition_num: Optional[int], option: EmbeddingVariableOption
    ) -> None:
        super().__init__(self._make)
        self._buckets = buckets
        self._partition_num = partition_num
        self._option = option

    def _make(self, getter: Any, name: str, shape: Any, **arguments: Any) -> AdaptiveTable:
        scope = name[: -len(_WEIGHTS)]
        width = int(shape[1])
        hashed = getter(scope + "hash_weights", [self._buckets, width], **arguments)
        if self._partition_num is not None:
            arguments["partitioner"] = tf.fixed_size_partitioner(self._partition_num)
        request = VariableRequest(width, tf.int64, self._option, None)
        return AdaptiveTable(hashed, request.get(getter, scope + "ev_weights", **arguments))

    def look_up(self, lookup: ColumnLookup) -> tf.Tensor:
        """The column's lookup: each row of the input has one id, or none and zeros.

        Raises:
          ValueError: The column has weights, or the model gives it no mask.
        """
        key = _key_of(lookup.column)
        mask = _masks.of.get(key)
        if mask is None or lookup.weights is not None:
            raise ValueError(
                "adaptive column {!r} needs its mask in adaptive_mask_tensors of input_layer, and "
                "no weights".format(key)
            )
        keys, rows = lookup.ids.values, lookup.ids.indices[:, 0]
        buckets = tf.strings.to_hash_bucket_fast(tf.as_string(keys), self._buckets)
        chosen = tf.cast(tf.gather(mask, rows), tf.int32)
        places = tf.dynamic_partition(tf.range(tf.size(keys)), chosen, 2)
        hashed, of_keys = lookup.table
        ids = [tf.gather(buckets, places[0]), tf.gather(keys, places[1])]
        stitched = stitched_rows(hashed, of_keys, ids, tf.gather(buckets, places[1]), places)
        width = lookup.column.dimension
        results = tf.reshape(stitched, [-1, width])
        shape = tf.stack([lookup.ids.dense_shape[0], tf.constant(width, tf.int64)])
        return tf.scatter_nd(tf.expand_dims(rows, 1), results, shape)


def categorical_column_with_adaptive_embedding(
    key: str,
    hash_bucket_size: int,
    dtype: Any = tf.string,
    partition_num: Optional[int] = None,
    ev_option: Optional[EmbeddingVariableOption] = None,
) -> KeyColumn:
    """A column of one id a row, of which a mask says whether it has a row of its own.

    `input_layer(adaptive_mask_tensors={key: mask})` gives the masks, int32 with a number for each
    row: 0 for ids that share `hash_bucket_size` rows by their hash, 1 for those that have rows in
    an EmbeddingVariable. A new row of these starts as the shared one. Both are trained.

    Args:
      key: As for `categorical_column_with_embedding`, as for all others.
      hash_bucket_size: Number of shared rows.
      dtype: As there.
      partition_num: As there.
      ev_option: As there.

    Example:
      >>> users = tf.feature_column.categorical_column_with_adaptive_embedding(
      ...     "user", hash_bucket_size=1000, dtype=tf.int64)
      >>> column = tf.feature_column.embedding_column(users, dimension=16)
    """
    option = ev_option or EmbeddingVariableOption()
    return KeyColumn(
        key, tf.as_dtype(dtype), TableOfAdaptiveColumn(hash_bucket_size, partition_num, option)
    )


# Saved on import, because `install` replaces this name with our own function.
_stock_input_layer = tf.feature_column.input_layer


def input_layer(
    features: Any,
    feature_columns: Any,
    weight_collections: Optional[List[str]] = None,
    trainable: bool = True,
    cols_to_vars: Optional[Dict[Any, Any]] = None,
    cols_to_output_tensors: Optional[Dict[Any, Any]] = None,
    adaptive_mask_tensors: Optional[Dict[str, Any]] = None,
) -> tf.Tensor:
    """`tf.feature_column.input_layer`, also for adaptive columns.

    Args:
      features: As TensorFlow's, as for the next five.
      feature_columns: As TensorFlow's.
      weight_collections: As TensorFlow's.
      trainable: As TensorFlow's.
      cols_to_vars: As TensorFlow's.
      cols_to_output_tensors: As TensorFlow's.
      adaptive_mask_tensors: For the key of each adaptive column its mask.

    Example:
      >>> users = tf.feature_column.categorical_column_with_adaptive_embedding(
      ...     "user", hash_bucket_size=1000, dtype=tf.int64)
      >>> column = tf.feature_column.embedding_column(users, dimension=16)
      >>> tf.feature_column.input_layer(
      ...     {"user": user_ids}, [column], adaptive_mask_tensors={"user": is_frequent})
    """
    with _masked_by(adaptive_mask_tensors or {}):
        return _stock_input_layer(
            features,
            feature_columns,
            weight_collections,
            trainable,
            cols_to_vars,
            cols_to_output_tensors,
        )


class _Masks(threading.local):
    def __init__(self) -> None:
        self.of: Dict[str, Any] = {}


_masks = _Masks()


@contextlib.contextmanager
def _masked_by(masks: Dict[str, Any]) -> Iterator[None]:
    before, _masks.of = _masks.of, masks
    try:
        yield
    finally:
        _masks.of = before


def _key_of(column: Any) -> str:
    while not isinstance(column, KeyColumn):
        column = column.categorical_column
    key: str = column.key
    return key
