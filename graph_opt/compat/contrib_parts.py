"""What `tf.contrib` was made of, by its private names in TensorFlow 2.15."""

from __future__ import annotations

from typing import Any, List, Tuple

from tensorflow.python.feature_column import feature_column as columns_v1
from tensorflow.python.feature_column import feature_column_v2 as columns_v2
from tensorflow.python.framework import smart_cond
from tensorflow.python.ops import lookup_ops
from tensorflow.python.training import checkpoint_utils, moving_averages
from tensorflow.python.util import deprecation, nest

from graph_opt.compat import tf

_SequenceDenseColumn = columns_v2.SequenceDenseColumn
index_table_from_file = lookup_ops.index_table_from_file
index_to_string_table_from_file = lookup_ops.index_to_string_table_from_file
index_to_string_table_from_tensor = lookup_ops.index_to_string_table_from_tensor
IdTableWithHashBuckets = lookup_ops.IdTableWithHashBuckets
MutableHashTable = lookup_ops.MutableHashTable
checkpoints_iterator = checkpoint_utils.checkpoints_iterator
deprecated = deprecation.deprecated
nested = nest
wait_for_new_checkpoint = checkpoint_utils.wait_for_new_checkpoint
_index_table_from_tensor = lookup_ops.index_table_from_tensor


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = lookup_ops.FastHashSpec,
    dtype: Any = tf.string,
    name: Any = None,
) -> Any:
    """A table from the values of a tensor to their places, as `tf.contrib.lookup` has it."""
    return _index_table_from_tensor(
        mapping, num_oov_buckets, default_value, hasher_spec, dtype, name
    )


def if_true(condition: Any, true_fn: Any, false_fn: Any) -> Any:
    """`tf.cond`, or only one of the branches if the condition has a value already."""
    return smart_cond.smart_cond(condition, true_fn, false_fn)


def known_bool(condition: Any) -> Any:
    """The value of a condition; None if only a step knows it."""
    return smart_cond.smart_constant_value(condition)


def moved_average(variable: Any, value: Any, decay: float, zero_debias: bool) -> Any:
    """Moves a moving average towards a value; the op, or the new average."""
    return moving_averages.assign_moving_average(variable, value, decay, zero_debias)


def sequences_of_columns(
    features: Any, feature_columns: Any, weight_collections: Any, trainable: bool
) -> Tuple[List[tf.Tensor], List[tf.Tensor]]:
    """Sequences [B, T, D] and lengths [B] of columns, in the order of their names.

    Raises:
      ValueError: A column is none of a sequence.
    """
    columns = (
        list(feature_columns)
        if isinstance(feature_columns, (list, tuple, set))
        else [feature_columns]
    )
    for column in columns:
        if not isinstance(column, (columns_v1._SequenceDenseColumn, _SequenceDenseColumn)):
            raise ValueError(
                "sequence_input_layer: {} is no column of a sequence: wrap a "
                "sequence_categorical_column in an embedding_column or indicator_column".format(
                    column
                )
            )
    of_version_1 = columns_v1._LazyBuilder(features)
    of_version_2 = columns_v2.FeatureTransformationCache(features)
    sequences, lengths = [], []
    for column in sorted(columns, key=lambda column: str(column.name)):
        with tf.variable_scope(None, default_name=getattr(column, "_var_scope_name", column.name)):
            if isinstance(column, columns_v1._SequenceDenseColumn):
                found = column._get_sequence_dense_tensor(
                    of_version_1, weight_collections=weight_collections, trainable=trainable
                )
            else:  # a numeric column, which has no variables
                found = column.get_sequence_dense_tensor(of_version_2, None)
            shape = tf.shape(found[0])[:2]
            width = [column.variable_shape.num_elements()]
            sequences.append(tf.reshape(found[0], tf.concat([shape, width], 0)))
            lengths.append(found[1])
    return sequences, lengths
