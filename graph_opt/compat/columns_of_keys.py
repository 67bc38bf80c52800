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
from graph_opt.compat.embedding_columns import ColumnWithLookup, restore_from_checkpoint

_HASH_BUCKETS = 2**63 - 1


class _Knowing(threading.local):
    """Whether the code that runs knows that columns of keys have no number of buckets."""

    def __init__(self) -> None:
        self.of_keys = False


_knowing = _Knowing()


@contextlib.contextmanager
def knowing_of_keys() -> Iterator[None]:
    """A scope in which TensorFlow's code may ask for numbers of buckets that are not used."""
    before, _knowing.of_keys = _knowing.of_keys, True
    try:
        yield
    finally:
        _knowing.of_keys = before


class KeyColumn(
    columns_v2.CategoricalColumn,
    columns_v1._CategoricalColumn,
    collections.namedtuple("KeyColumn", ("key", "dtype", "table")),
):
    """A categorical column whose ids are keys of any value.

    Strings are hashed into 63 bits; integers stay as they are.

    Attributes:
      key: Name of the feature.
      dtype: Of its values.
      table: A `TableOfColumn`.
    """

    _is_v2_column = True

    @property
    def num_buckets(self) -> int:
        """There is no such number: columns that ask for it would make a table of so many rows."""
        if not _knowing.of_keys:
            raise ValueError(
                "column {!r} has no number of buckets: make its embedding with "
                "graph_opt.embedding_column, or with TensorFlow's after graph_opt.install(); a "
                "linear model or an indicator needs another column".format(self.key)
            )
        return 1

    @property
    def _num_buckets(self) -> int:
        return self.num_buckets

    @property
    def name(self) -> str:
        """Name of the feature."""
        return self.key

    @property
    def parse_example_spec(self) -> Any:
        """How to parse the feature."""
        return {self.key: tf.io.VarLenFeature(self.dtype)}

    @property
    def _parse_example_spec(self) -> Any:
        return self.parse_example_spec

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The feature as a SparseTensor of keys."""
        return self._as_keys(transformation_cache.get(self.key, state_manager))

    def _transform_feature(self, inputs: Any) -> Any:
        return self._as_keys(inputs.get(self.key))

    def _as_keys(self, feature: Any) -> Any:
        values = columns_v2._to_sparse_input_and_drop_ignore_values(feature)
        if values.dtype != tf.string and not values.dtype.is_integer:
            raise ValueError(
                "column {!r} has values of {}; need strings or integers".format(
                    self.key, values.dtype.name
                )
            )
        if self.dtype.is_integer != values.dtype.is_integer:
            raise ValueError(
                "column {!r} is of {}, but its values are {}".format(
                    self.key, self.dtype.name, values.dtype.name
                )
            )
        if values.dtype == tf.string:
            keys = tf.strings.to_hash_bucket_fast(values.values, _HASH_BUCKETS, name="lookup")
        else:
            keys = tf.cast(values.values, tf.int64)
        return tf.SparseTensor(values.indices, keys, values.dense_shape)

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Keys, without weights."""
        keys = transformation_cache.get(self, state_manager)
        return columns_v2.CategoricalColumn.IdWeightPair(keys, None)

    def _get_sparse_tensors(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        return columns_v2.CategoricalColumn.IdWeightPair(inputs.get(self), None)

    @property
    def parents(self) -> Any:
        """The feature."""
        return [self.key]

    def get_config(self) -> Any:
        """Not supported: the table's options are objects of the script."""
        raise NotImplementedError("column {!r} cannot be serialized".format(self.key))

    @classmethod
    def from_config(
        cls, config: Any, custom_objects: Any = None, columns_by_name: Any = None
    ) -> Any:
        """Not supported: see `get_config`."""
        raise NotImplementedError("{} cannot be deserialized".format(cls.__name__))


class TableOfColumn:
    """Makes the table of an embedding column.

    Args:
      getter: A custom getter of `tf.variable_scope`.
    """

    def __init__(self, getter: Callable[..., Any]) -> None:
        self.getter = getter


class _OwnsTable(ColumnWithLookup):
    """An EmbeddingColumn over a `KeyColumn`."""

    graph_opt_table: Optional[TableOfColumn] = None  # Copies lose it; None: the KeyColumn's.

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
            rank = tf.dimension_value(ids.dense_shape.shape[0])
            look_up: Any = embedding_ops.safe_embedding_lookup_sparse
            if not self.use_safe_embedding_lookup and rank is not None and rank <= 2:
                look_up = embedding_ops.embedding_lookup_sparse_v2
            return look_up(
                self._shared_table(weight_collections, trainable),
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


def with_own_table(column: Any, table: TableOfColumn) -> Any:
    """An embedding column over a `KeyColumn`, which makes its table so.

    Args:
      column: The column as TensorFlow has made it.
      table: Makes its table.
    """
    owning = _OwnsTable(*column)
    owning.graph_opt_table = table
    owning.graph_opt_lookup = getattr(column, "graph_opt_lookup", None)
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


def sequence_of(column: KeyColumn) -> Any:
    """The column with ids that are steps of a sequence."""
    return columns_v2.SequenceCategoricalColumn(column)
