"""DeepRec's feature columns over EmbeddingVariables."""

from __future__ import annotations

import functools
from typing import Any, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.accepted_arguments import accepting
from graph_opt.compat.columns_of_keys import (
    KeyColumn,
    TableOfColumn,
    knowing_of_keys,
    linear_weights,
    sequence_of,
    table_of,
    with_own_table,
    with_shared_table,
)
from graph_opt.compat.embedding_columns import ColumnLookup
from graph_opt.embedding import column_scope
from graph_opt.embedding_variable.adaptive_columns import TableOfAdaptiveColumn
from graph_opt.embedding_variable.composite_tables import MultiHashVariable, check_multihash
from graph_opt.embedding_variable.get_embedding_variable import VariableRequest
from graph_opt.embedding_variable.lookups import safe_embedding_lookup_sparse
from graph_opt.embedding_variable.option_classes import EmbeddingVariableOption
from graph_opt.reporting.warnings_given import warn_once


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
    partitioner = None if partition_num is None else tf.fixed_size_partitioner(partition_num)
    return KeyColumn(
        key, checked(key, dtype), TableByKey(ev_option or EmbeddingVariableOption(), partitioner)
    )


class TableByKey(TableOfColumn):
    """Makes an EmbeddingVariable.

    Args:
      option: Of the EmbeddingVariable.
      partitioner: Its partitioner; None for that of the variable scope.
    """

    def __init__(self, option: EmbeddingVariableOption, partitioner: Any = None) -> None:
        super().__init__(self._make)
        self._option = option
        self._partitioner = partitioner

    def _make(
        self, getter: Any, name: str, shape: Any, partitioner: Any = None, **arguments: Any
    ) -> Any:
        if self._partitioner is not None:
            partitioner = self._partitioner
        request = VariableRequest(int(shape[1]), tf.int64, self._option, None)
        return request.get(getter, name, partitioner=partitioner, **arguments)


def sequence_categorical_column_with_embedding(
    key: str,
    dtype: Any = tf.int64,
    partition_num: Optional[int] = None,
    ev_option: Optional[EmbeddingVariableOption] = None,
) -> Any:
    """`categorical_column_with_embedding` whose ids are steps of a sequence.

    Example:
      >>> visits = tf.feature_column.sequence_categorical_column_with_embedding("visits")
      >>> column = tf.feature_column.embedding_column(visits, dimension=16)
    """
    return sequence_of(categorical_column_with_embedding(key, dtype, partition_num, ev_option))


class MultiHashTable(TableOfColumn):
    """Makes the two small tables of a multi-hash column's embedding.

    Args:
      rows: Numbers of rows of the two.
      operation: `add`, `mul` or `concat`: how their rows become one.
      partitioner: Of both; None for that of the variable scope.
      widths: Numbers of columns of the two, which an embedding column tells; see `of_dimension`.
    """

    has_weights = False

    def __init__(
        self, rows: Sequence[int], operation: str, partitioner: Any, widths: Sequence[int] = ()
    ) -> None:
        super().__init__(self._make)
        self._rows = list(rows)
        self._operation = operation
        self._partitioner = partitioner
        self._widths = list(widths)

    @property
    def width(self) -> int:
        """Number of columns of the embedding."""
        return sum(self._widths) if self._operation == "concat" else self._widths[0]

    def of_dimension(self, dimension: Any) -> MultiHashTable:
        """The same for one embedding column.

        Args:
          dimension: Numbers of columns of the two tables; an integer if they are the same.
        """
        widths = [dimension] * 2 if isinstance(dimension, int) else [int(one) for one in dimension]
        if self._operation != "concat" and len(set(widths)) > 1:
            raise ValueError(
                "embedding_column: dimension is {}; operation {!r} needs equal ones".format(
                    dimension, self._operation
                )
            )
        return MultiHashTable(self._rows, self._operation, self._partitioner, widths)

    def _make(
        self, getter: Any, name: str, shape: Any, partitioner: Any = None, **arguments: Any
    ) -> MultiHashVariable:
        if self._partitioner is not None:
            partitioner = self._partitioner
        variables = [
            getter(name + suffix, [rows, width], partitioner=partitioner, **arguments)
            for suffix, rows, width in zip(("_q", "_r"), self._rows, self._widths)
        ]
        return MultiHashVariable(name, variables[0], variables[1], self._operation)

    def look_up(self, lookup: ColumnLookup) -> tf.Tensor:
        """The column's lookup."""
        column = lookup.column
        return safe_embedding_lookup_sparse(
            lookup.table,
            lookup.ids,
            lookup.weights,
            column.combiner,
            name="{}_weights".format(column.name),
            max_norm=column.max_norm,
        )


def categorical_column_with_multihash(
    key: str,
    dims: Sequence[Any],
    complementary_strategy: str = "Q-R",
    operation: str = "concat",
    dtype: Any = tf.int64,
    partition_num: Optional[int] = None,
) -> KeyColumn:
    """A categorical column whose embedding is a multi-hash variable.

    Args:
      key: Name of the feature.
      dims: Numbers of rows of the two tables, or their shapes.
      complementary_strategy: `Q-R`.
      operation: `add`, `mul` or `concat`.
      dtype: As for `categorical_column_with_embedding`.
      partition_num: Number of parts of each table; None for what the variable scope says.

    Example:
      >>> items = tf.feature_column.categorical_column_with_multihash("item", [1000, 1000])
      >>> column = tf.feature_column.embedding_column(items, dimension=(8, 8))
    """
    check_multihash(key, dims, complementary_strategy, operation)
    rows = [int(size if isinstance(size, int) else size[0]) for size in dims]
    partitioner = None if partition_num is None else tf.fixed_size_partitioner(partition_num)
    return KeyColumn(key, checked(key, dtype), MultiHashTable(rows, operation, partitioner))


# Also their parameters, which `graph-opt run` asks for, but not their docstrings.
_KEPT = ("__module__", "__name__", "__qualname__")


@functools.wraps(column_scope.embedding_column, _KEPT)
def embedding_column(categorical_column: Any, dimension: Any, *arguments: Any, **named: Any) -> Any:
    """As `tf.feature_column.embedding_column`, also over columns of this module.

    Over a multi-hash column, `dimension` may be the numbers of columns of the two tables.

    Example:
      >>> users = tf.feature_column.categorical_column_with_embedding("user", dtype=tf.int64)
      >>> column = tf.feature_column.embedding_column(users, dimension=16, combiner="sum")
    """
    table = table_of(categorical_column)
    if isinstance(table, MultiHashTable):
        table = table.of_dimension(dimension)
        dimension = table.width
    column = column_scope.embedding_column(categorical_column, dimension, *arguments, **named)
    if table is None:
        return column
    return with_own_table(column, table)


# Found on import, because `install` replaces these names.
_DO_FUSION = {"do_fusion": False}
_stock_linear_model = accepting(tf.feature_column.linear_model, warn_once, _DO_FUSION)
_stock_shared_columns = accepting(tf.feature_column.shared_embedding_columns, warn_once, _DO_FUSION)


@functools.wraps(_stock_linear_model, _KEPT)
def linear_model(features: Any, feature_columns: Any, *arguments: Any, **named: Any) -> tf.Tensor:
    """As `tf.feature_column.linear_model`, also of columns of this module.

    The weights of `categorical_column_with_embedding` are an EmbeddingVariable [units] whose rows
    start as zeros, unless the column's option says otherwise.

    Raises:
      ValueError: A column is a multi-hash or adaptive one, which have two tables each.

    Example:
      >>> users = tf.feature_column.categorical_column_with_embedding("user", tf.int64)
      >>> logits = tf.feature_column.linear_model(features, [users])
    """
    with linear_weights():
        return _stock_linear_model(features, feature_columns, *arguments, **named)


@functools.wraps(_stock_shared_columns, _KEPT)
def shared_embedding_columns(categorical_columns: Any, *arguments: Any, **named: Any) -> List[Any]:
    """As `tf.feature_column.shared_embedding_columns`, also over columns of this module.

    Raises:
      ValueError: A column is a multi-hash or adaptive one, which have two tables each.

    Example:
      >>> viewed, bought = [
      ...     tf.feature_column.categorical_column_with_embedding(key, dtype=tf.int64)
      ...     for key in ("viewed", "bought")]
      >>> columns = tf.feature_column.shared_embedding_columns([viewed, bought], dimension=16)
    """
    tables = [table_of(column) for column in categorical_columns]
    for column, table in zip(categorical_columns, tables):
        if isinstance(table, (MultiHashTable, TableOfAdaptiveColumn)):
            raise ValueError(
                "shared_embedding_columns: column {!r} has two tables, which it cannot share; use "
                "embedding_column".format(column.name)
            )
    with knowing_of_keys():
        columns = _stock_shared_columns(categorical_columns, *arguments, **named)
    return [
        column if table is None else with_shared_table(column)
        for table, column in zip(tables, columns)
    ]


def checked(key: str, dtype: Any) -> Any:
    """The dtype of a column of keys; raises ValueError unless these are strings or integers."""
    dtype = tf.as_dtype(dtype)
    if dtype != tf.string and not dtype.is_integer:
        raise ValueError(
            "column {!r}: dtype is {}; need string or an integer type".format(key, dtype.name)
        )
    return dtype
