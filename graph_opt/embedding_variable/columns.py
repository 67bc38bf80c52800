"""DeepRec's feature columns over EmbeddingVariables."""

from __future__ import annotations

import functools
from typing import Any, List, Optional

from graph_opt.compat import tf
from graph_opt.compat.columns_of_keys import (
    KeyColumn,
    TableOfColumn,
    sequence_of,
    table_of,
    with_own_table,
)
from graph_opt.embedding import column_scope
from graph_opt.embedding_variable.get_embedding_variable import VariableRequest
from graph_opt.embedding_variable.option_classes import EmbeddingVariableOption


def categorical_column_with_embedding(
    key: str,
    dtype: Any = tf.string,
    partition_num: Optional[int] = None,
    ev_option: Optional[EmbeddingVariableOption] = None,
) -> KeyColumn:
    """A categorical column without vocabulary: its embedding is an EmbeddingVariable.

    Strings are hashed into 63 bits, integers are keys as they are. Like TensorFlow's columns, it
    drops '' and -1 from dense features. `embedding_column` over it, also if weights or order are
    added by `weighted_categorical_column` or the `sequence_` form, makes the EmbeddingVariable.

    Args:
      key: Name of the feature.
      dtype: Of its values: tf.string, or an integer type.
      partition_num: Number of parts of the EmbeddingVariable; None for what the variable scope's
        partitioner says.
      ev_option: Options of the EmbeddingVariable.

    Raises:
      ValueError: There is no such dtype.

    Example:
      >>> users = tf.feature_column.categorical_column_with_embedding("user", dtype=tf.int64)
      >>> column = tf.feature_column.embedding_column(users, dimension=16)
    """
    dtype = tf.as_dtype(dtype)
    if dtype != tf.string and not dtype.is_integer:
        raise ValueError(
            "column {!r}: dtype is {}; need string or an integer type".format(key, dtype.name)
        )
    option = ev_option or EmbeddingVariableOption()

    def make_table(
        getter: Any, name: str, shape: Any, partitioner: Any = None, **arguments: Any
    ) -> Any:
        if partition_num is not None:
            partitioner = tf.fixed_size_partitioner(partition_num)
        request = VariableRequest(int(shape[1]), tf.int64, option, None)
        return request.get(getter, name, partitioner=partitioner, **arguments)

    return KeyColumn(key, dtype, TableOfColumn(make_table))


def sequence_categorical_column_with_embedding(
    key: str,
    dtype: Any = tf.int64,
    partition_num: Optional[int] = None,
    ev_option: Optional[EmbeddingVariableOption] = None,
) -> Any:
    """`categorical_column_with_embedding` whose ids are steps of a sequence."""
    return sequence_of(categorical_column_with_embedding(key, dtype, partition_num, ev_option))


@functools.wraps(column_scope.embedding_column)
def embedding_column(categorical_column: Any, *arguments: Any, **named: Any) -> Any:
    """As `tf.feature_column.embedding_column`, also over columns of this module."""
    column = column_scope.embedding_column(categorical_column, *arguments, **named)
    return column if table_of(categorical_column) is None else with_own_table(column)


# Saved on import, because `install` replaces this name with our own function.
_stock_shared_columns = tf.feature_column.shared_embedding_columns


@functools.wraps(_stock_shared_columns)
def shared_embedding_columns(categorical_columns: Any, *arguments: Any, **named: Any) -> List[Any]:
    """As `tf.feature_column.shared_embedding_columns`, also over columns of this module."""
    columns = _stock_shared_columns(categorical_columns, *arguments, **named)
    return [
        column if table_of(inner) is None else with_own_table(column)
        for inner, column in zip(categorical_columns, columns)
    ]
