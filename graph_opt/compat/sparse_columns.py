"""Feature columns of sparse numbers, and of ids of which the first or last few count."""

from __future__ import annotations

import collections
from typing import Any

from tensorflow.python.feature_column import feature_column as columns_v1
from tensorflow.python.feature_column import feature_column_v2 as columns_v2

from graph_opt.compat import tf
from graph_opt.compat.columns_of_keys import SparseColumn, check_kind, number_of_keys

IdWeightPair = columns_v2.CategoricalColumn.IdWeightPair


class _SparseOrDense(SparseColumn, columns_v2.DenseColumn, columns_v1._DenseColumn):
    """A column that is ids to whoever looks them up, and numbers to a layer."""

    def dense(self, ids: tf.SparseTensor) -> tf.Tensor:
        """The ids as numbers [B, *variable_shape]."""
        raise NotImplementedError

    @property
    def _variable_shape(self) -> Any:
        return self.variable_shape

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> tf.Tensor:
        """See `dense`."""
        return self.dense(transformation_cache.get(self, state_manager))

    def _get_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> tf.Tensor:
        return self.dense(inputs.get(self))


class SparseNumericColumn(
    _SparseOrDense, collections.namedtuple("SparseNumericColumn", ("key", "shape", "dtype"))
):
    """Numbers in a SparseTensor.

    Attributes:
      key: Name of the feature.
      shape: Of the numbers of a row, a tuple; None if it is not known.
      dtype: Of the numbers.
    """

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

    @property
    def num_buckets(self) -> int:
        """There is no such number."""
        return number_of_keys(self, "use hash_table_column, or sparse_bucketized_column over it")

    @property
    def variable_shape(self) -> tf.TensorShape:
        """Shape of the numbers of a row."""
        if self.shape is None:
            raise ValueError(
                "sparse_numeric_column {!r}: a layer needs its shape; give it one".format(self.key)
            )
        return tf.TensorShape(self.shape)

    def sparse(self, feature: Any) -> tf.SparseTensor:
        """See `SparseColumn`."""
        if not isinstance(feature, tf.SparseTensor):
            raise ValueError(
                "sparse_numeric_column {!r}: the feature is dense; need a SparseTensor".format(
                    self.key
                )
            )
        check_kind(self, feature)
        return feature

    def dense(self, ids: tf.SparseTensor) -> tf.Tensor:
        """See `_SparseOrDense`; zeros where there is no number."""
        shape = self.variable_shape
        rows = tf.sparse.reshape(ids, tf.stack([ids.dense_shape[0], -1]))
        whole = tf.stack([rows.dense_shape[0], shape.num_elements()])
        numbers = tf.sparse.to_dense(tf.sparse.reset_shape(rows, whole))
        return tf.cast(tf.reshape(numbers, [-1, *shape.as_list()]), tf.float32)


class SparseBucketizedColumn(
    _SparseOrDense,
    collections.namedtuple("SparseBucketizedColumn", ("source_column", "boundaries")),
):
    """Numbers as the buckets that they are in.

    Attributes:
      source_column: A `SparseNumericColumn`, or one of TensorFlow's `numeric_column`.
      boundaries: A tuple; bucket k begins at the k-th of them, counted from 1.
    """

    @property
    def name(self) -> str:
        """That of the source and `sparse_bucketized`."""
        return "{}_sparse_bucketized".format(self.source_column.name)

    @property
    def parents(self) -> Any:
        """The source."""
        return [self.source_column]

    @property
    def parse_example_spec(self) -> Any:
        """That of the source."""
        return self.source_column.parse_example_spec

    @property
    def num_buckets(self) -> int:
        """One more than boundaries."""
        return len(self.boundaries) + 1

    @property
    def variable_shape(self) -> tf.TensorShape:
        """That of the source, and the number of buckets."""
        if self.source_column.shape is None:
            raise ValueError("column {!r}: a layer needs the source's shape".format(self.name))
        return tf.TensorShape([*self.source_column.shape, self.num_buckets])

    def sparse(self, feature: Any) -> tf.SparseTensor:
        """See `SparseColumn`."""
        numbers = columns_v2._to_sparse_input_and_drop_ignore_values(feature)
        buckets = tf.raw_ops.Bucketize(input=numbers.values, boundaries=list(self.boundaries))
        return tf.SparseTensor(numbers.indices, tf.cast(buckets, tf.int64), numbers.dense_shape)

    def dense(self, ids: tf.SparseTensor) -> tf.Tensor:
        """One-hot vectors; see `_SparseOrDense`. Where there is no number, the bucket is 0."""
        (width,) = self.source_column.shape
        whole = tf.stack([ids.dense_shape[0], width])
        return tf.one_hot(tf.sparse.to_dense(tf.sparse.reset_shape(ids, whole)), self.num_buckets)


class CutoffColumn(
    SparseColumn,
    collections.namedtuple(
        "CutoffColumn",
        ("categorical_column", "cutoff_length", "cutoff_side", "cutoff_axis", "reverse"),
    ),
):
    """The first or last few ids of another column; see `cut_off` for the attributes."""

    @property
    def name(self) -> str:
        """That of the source and `cutoff`."""
        return "{}_cutoff".format(self.categorical_column.name)

    @property
    def parents(self) -> Any:
        """The source."""
        return [self.categorical_column]

    @property
    def parse_example_spec(self) -> Any:
        """That of the source."""
        return self.categorical_column.parse_example_spec

    @property
    def num_buckets(self) -> int:
        """That of the source."""
        return self.categorical_column.num_buckets

    @property
    def _num_buckets(self) -> int:
        return self.categorical_column._num_buckets

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The ids and weights that are left."""
        source = self.categorical_column
        return self._cut(source.get_sparse_tensors(transformation_cache, state_manager))

    def _transform_feature(self, inputs: Any) -> Any:
        return self._cut(self.categorical_column._get_sparse_tensors(inputs))

    def _cut(self, pair: Any) -> Any:
        return IdWeightPair(*(None if one is None else self._cut_one(one) for one in pair))

    def _cut_one(self, ids: tf.SparseTensor) -> tf.SparseTensor:
        return cut_off(
            ids, self.cutoff_axis, self.cutoff_length, self.cutoff_side == "left", self.reverse
        )

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The ids and weights that are left."""
        return transformation_cache.get(self, state_manager)

    def _get_sparse_tensors(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        return inputs.get(self)


def cut_off(
    ids: tf.SparseTensor, axis: int, length: int, is_left: bool, is_reversed: bool
) -> tf.SparseTensor:
    """Keeps the first ids along an axis, or the last ones, counted from the last place with an id.

    Args:
      ids: In row-major order.
      axis: At least 1.
      length: How many places are kept, which the axis has afterwards.
      is_left: Whether the last are kept, which then begin at place 0.
      is_reversed: Whether those that are left change places, the last one first.
    """
    rows = ids.indices[:, 0]
    for number in range(1, axis):
        rows = rows * ids.dense_shape[number] + ids.indices[:, number]
    count = tf.reduce_prod(ids.dense_shape[:axis])
    places = ids.indices[:, axis]
    if is_left:
        places -= tf.maximum(_lengths(places, rows, count) - length, 0)
    kept = tf.logical_and(tf.greater_equal(places, 0), tf.less(places, length))
    places, rows = tf.boolean_mask(places, kept), tf.boolean_mask(rows, kept)
    if is_reversed:
        places = _lengths(places, rows, count) - 1 - places
    before, _, after = tf.split(
        tf.boolean_mask(ids.indices, kept), [axis, 1, ids.shape.rank - axis - 1], 1
    )
    shape = [*tf.unstack(ids.dense_shape, ids.shape.rank)]
    shape[axis] = tf.constant(length, tf.int64)
    cut = tf.SparseTensor(
        tf.concat([before, tf.expand_dims(places, 1), after], 1),
        tf.boolean_mask(ids.values, kept),
        tf.stack(shape),
    )
    return tf.sparse.reorder(cut) if is_reversed else cut


def _lengths(places: tf.Tensor, rows: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """For each id how many places there are in its row up to the last one with an id."""
    return tf.gather(tf.math.unsorted_segment_max(places + 1, rows, count), rows)
