"""Feature columns whose ids have no fixed vocabulary, and embedding columns that own their table.

TensorFlow's embedding columns get their table by `tf.get_variable`, or from the layer that they are
in, which calls the same. The columns here do so in a scope whose custom getter makes the table.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from typing import Any, Callable, Iterator, Optional

from tensorflow.python.feature_column import feature_column as columns_v1
from tensorflow.python.feature_column import feature_column_v2 as columns_v2
from tensorflow.python.ops import embedding_ops

from graph_opt.compat import tf
from graph_opt.compat.embedding_columns import (
    ColumnLookup,
    ColumnWithLookup,
    restore_from_checkpoint,
)

_HASH_BUCKETS = 2**63 - 1


class _Knowing(threading.local):
    """Whether the code that runs knows that columns of keys have no number of buckets.

    Attributes:
      of_keys: It does, and makes no table of so many rows.
      linear: It is a linear model, whose weights `linear_weights` makes.
      weights_of: The column whose number it asked for last: it makes the column's weights next.
    """

    def __init__(self) -> None:
        self.of_keys = False
        self.linear = False
        self.weights_of: Optional[KeyColumn] = None


_knowing = _Knowing()


@contextlib.contextmanager
def knowing_of_keys() -> Iterator[None]:
    """A scope in which TensorFlow's code may ask for numbers of buckets that are not used."""
    before, _knowing.of_keys = _knowing.of_keys, True
    try:
        yield
    finally:
        _knowing.of_keys = before


class SparseColumn(columns_v2.CategoricalColumn, columns_v1._CategoricalColumn):
    """A categorical column for both of TensorFlow's ways to ask one.

    Subclasses are named tuples with the properties `name`, `parents`, `parse_example_spec` and
    `num_buckets`.
    """

    _is_v2_column = True

    def sparse(self, feature: Any) -> Any:
        """What the first of `parents` has, as a SparseTensor of ids."""
        raise NotImplementedError

    @property
    def _num_buckets(self) -> int:
        return self.num_buckets

    @property
    def _parse_example_spec(self) -> Any:
        return self.parse_example_spec

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The ids."""
        return self.sparse(transformation_cache.get(self.parents[0], state_manager))

    def _transform_feature(self, inputs: Any) -> Any:
        return self.sparse(inputs.get(self.parents[0]))

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The ids, and None for their weights."""
        ids = transformation_cache.get(self, state_manager)
        return columns_v2.CategoricalColumn.IdWeightPair(ids, None)

    def _get_sparse_tensors(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        return columns_v2.CategoricalColumn.IdWeightPair(inputs.get(self), None)

    def get_config(self) -> Any:
        """Not supported: models that are loaded elsewhere would not know the class."""
        raise NotImplementedError("column {!r} cannot be serialized".format(self.name))

    @classmethod
    def from_config(
        cls, config: Any, custom_objects: Any = None, columns_by_name: Any = None
    ) -> Any:
        """Not supported: see `get_config`."""
        raise NotImplementedError("{} cannot be deserialized".format(cls.__name__))


def number_of_keys(column: SparseColumn, remedy: str) -> int:
    """The number of buckets of a column that has none, for code that knows and does not use it.

    Args:
      column: The column, in whose place others would make a table of so many rows.
      remedy: What to do instead, which the error says.
    """
    if not _knowing.of_keys:
        raise ValueError("column {!r} has no number of buckets: {}".format(column.name, remedy))
    return 1


def keys_as_they_are(values: Any) -> Any:
    """Integers themselves; strings hashed into 63 bits."""
    if values.dtype == tf.string:
        return tf.strings.to_hash_bucket_fast(values, _HASH_BUCKETS, name="lookup")
    return tf.cast(values, tf.int64)


class KeyColumn(
    SparseColumn,
    collections.namedtuple(
        "KeyColumn", ("key", "dtype", "table", "keys_of"), defaults=(keys_as_they_are,)
    ),
):
    """A categorical column whose ids are keys of any value.

    Attributes:
      key: Name of the feature.
      dtype: Of its values.
      table: A `TableOfColumn`.
      keys_of: Makes keys [N] of values [N].
    """

    @property
    def num_buckets(self) -> int:
        """There is no such number: columns that ask for it would make a table of so many rows."""
        return number_of_keys(
            self,
            "make its embedding with graph_opt.embedding_column and its weights with graph_opt's "
            "linear_model, or with TensorFlow's after graph_opt.install(); an indicator needs "
            "another column",
        )

    @property
    def _num_buckets(self) -> int:
        if _knowing.of_keys or not _knowing.linear:
            return self.num_buckets
        if not self.table.has_weights:
            raise ValueError("column {!r}: linear_model has no weights for it".format(self.key))
        _knowing.weights_of = self
        return 1

    @property
    def name(self) -> str:
        """Name of the feature."""
        return self.key

    @property
    def parents(self) -> Any:
        """The feature."""
        return [self.key]

    @property
    def parse_example_spec(self) -> Any:
        """How to parse the feature."""
        return {self.key: tf.io.VarLenFeature(self.dtype)}

    def sparse(self, feature: Any) -> Any:
        """See `SparseColumn`."""
        values = columns_v2._to_sparse_input_and_drop_ignore_values(feature)
        if values.dtype != tf.string and not values.dtype.is_integer:
            raise ValueError(
                "column {!r} has values of {}; need strings or integers".format(
                    self.key, values.dtype.name
                )
            )
        check_kind(self, values)
        return tf.SparseTensor(values.indices, self.keys_of(values.values), values.dense_shape)


def check_kind(column: Any, values: Any) -> None:
    """Raises ValueError unless both a column and its values are integers, or neither is."""
    if column.dtype.is_integer != values.dtype.is_integer:
        raise ValueError(
            "column {!r} is of {}, but its values are {}".format(
                column.key, column.dtype.name, values.dtype.name
            )
        )


class TableOfColumn:
    """Makes the table of an embedding column, and may look its ids up.

    Args:
      getter: A custom getter of `tf.variable_scope`.

    Attributes:
      has_weights: Whether the getter also makes the weights of a linear model.
      look_up: The column's lookup; None for TensorFlow's.
    """

    has_weights = True
    look_up: Any = None

    def __init__(self, getter: Callable[..., Any]) -> None:
        self.getter = getter


class _OwnsTable(ColumnWithLookup):
    """An EmbeddingColumn whose table has a row for each key."""

    # Copies lose these, and have the KeyColumn's table and TensorFlow's name.
    graph_opt_table: Optional[TableOfColumn] = None
    graph_opt_name: Optional[str] = None

    @property
    def name(self) -> str:
        """Of the column."""
        return self.graph_opt_name or str(super().name)

    def create_state(self, state_manager: Any) -> None:
        """Lets a layer have the table."""
        with _made_by(self.graph_opt_table or table_of(self.categorical_column)):
            super().create_state(state_manager)

    def _old_get_dense_tensor_internal(
        self, sparse_tensors: Any, weight_collections: Any, trainable: Any
    ) -> Any:
        with _made_by(self.graph_opt_table or table_of(self.categorical_column)):
            return super()._old_get_dense_tensor_internal(
                sparse_tensors, weight_collections, trainable
            )


class _SharesTable(columns_v1._SharedEmbeddingColumn):
    """One of several embedding columns over `KeyColumn`s with one table."""

    def _get_dense_tensor_internal(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        with tf.name_scope(None, default_name=self.name):
            ids, weights = self.categorical_column._get_sparse_tensors(inputs)
            table = self._shared_table(weight_collections, trainable)
            lookup = ColumnLookup(
                self, inputs, table, ids, weights, lambda: self._stock_lookup(table, ids, weights)
            )
            own = table_of(self.categorical_column)
            return lookup.stock() if own is None or not own.look_up else own.look_up(lookup)

    def _stock_lookup(self, table: Any, ids: Any, weights: Any) -> Any:
        rank = tf.dimension_value(ids.dense_shape.shape[0])
        look_up: Any = embedding_ops.safe_embedding_lookup_sparse
        is_safe = getattr(self, "use_safe_embedding_lookup", True)  # always, in TensorFlow 1
        if not is_safe and rank is not None and rank <= 2:
            look_up = embedding_ops.embedding_lookup_sparse_v2
        return look_up(
            table,
            ids,
            weights,
            combiner=self.combiner,
            name="{}_weights".format(self.name),
            max_norm=self.max_norm,
        )

    def _shared_table(self, weight_collections: Any, trainable: Any) -> Any:
        shared = tf.get_collection_ref(self.shared_embedding_collection_name)
        if not shared:
            with _made_by(table_of(self.categorical_column)):
                shared.append(
                    tf.get_variable(
                        "embedding_weights",
                        (1, self.dimension),
                        tf.float32,
                        self.initializer,
                        trainable=self.trainable and trainable,
                        collections=weight_collections,
                    )
                )
            restore_from_checkpoint(self, shared[0])
        return shared[0]


def table_of(categorical_column: Any) -> Optional[TableOfColumn]:
    """What makes the table of a categorical column's keys; None for other columns.

    Args:
      categorical_column: Any, also one that adds weights or order to another.
    """
    while not isinstance(categorical_column, KeyColumn):
        inner = getattr(categorical_column, "categorical_column", None)
        if inner is None:
            return None
        categorical_column = inner
    table: TableOfColumn = categorical_column.table
    return table


def with_own_table(column: Any, table: TableOfColumn, name: Optional[str] = None) -> Any:
    """An embedding column that makes its table so.

    Args:
      column: The column as TensorFlow has made it.
      table: Makes its table, and looks its ids up if it has a lookup.
      name: Of the column; None for TensorFlow's.
    """
    owning = _OwnsTable(*column)
    owning.graph_opt_table = table
    owning.graph_opt_name = name
    owning.graph_opt_lookup = table.look_up or getattr(column, "graph_opt_lookup", None)
    owning.graph_opt_parts = getattr(column, "graph_opt_parts", None)
    return owning


def with_shared_table(column: Any) -> Any:
    """A shared embedding column, which makes its table as its `KeyColumn` says."""
    return _SharesTable(*column)


@contextlib.contextmanager
def _made_by(table: Optional[TableOfColumn]) -> Iterator[None]:
    if table is None:
        yield
        return
    with knowing_of_keys(), tf.variable_scope(tf.get_variable_scope(), custom_getter=table.getter):
        yield


@contextlib.contextmanager
def linear_weights() -> Iterator[None]:
    """A scope in which linear models have weights by key for columns of keys."""

    def get(getter: Callable[..., Any], name: str, *arguments: Any, **named: Any) -> Any:
        column, _knowing.weights_of = _knowing.weights_of, None
        if column is None:
            return getter(name, *arguments, **named)
        if name.split("/")[-1] != "weights":
            _ = column.num_buckets  # raises: another column has asked
        return column.table.getter(getter, name, *arguments, **named)

    before, _knowing.linear, _knowing.weights_of = _knowing.linear, True, None
    try:
        with tf.variable_scope(tf.get_variable_scope(), custom_getter=get):
            yield
    finally:
        _knowing.linear, _knowing.weights_of = before, None


def sequence_of(column: KeyColumn) -> Any:
    """The column with ids that are steps of a sequence."""
    return columns_v2.SequenceCategoricalColumn(column)
