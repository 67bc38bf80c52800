"""`tf.contrib.feature_column`: sequences as inputs of models."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.contrib_parts import sequences_of_columns
from graph_opt.contrib.files import missing_from

sequence_categorical_column_with_hash_bucket = (
    tf.feature_column.sequence_categorical_column_with_hash_bucket
)
sequence_categorical_column_with_identity = (
    tf.feature_column.sequence_categorical_column_with_identity
)
sequence_categorical_column_with_vocabulary_file = (
    tf.feature_column.sequence_categorical_column_with_vocabulary_file
)
sequence_categorical_column_with_vocabulary_list = (
    tf.feature_column.sequence_categorical_column_with_vocabulary_list
)
sequence_numeric_column = tf.feature_column.sequence_numeric_column


def sequence_input_layer(
    features: Any,
    feature_columns: Any,
    weight_collections: Optional[Sequence[str]] = None,
    trainable: bool = True,
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Sequences of several columns side by side.

    Args:
      features: Tensors and SparseTensors by name.
      feature_columns: Embeddings and indicators of sequence columns, and numeric ones; they are put
        side by side in the order of their names.
      weight_collections: Further collections of the variables.
      trainable: Whether variables are trained.

    Returns:
      The sequences [B, T, D], and their lengths [B] int64.

    Raises:
      ValueError: A column is none of a sequence.
      tf.errors.InvalidArgumentError: At run time, columns differ in a sequence's length.

    Example:
      >>> items = tf.feature_column.sequence_categorical_column_with_hash_bucket("items", 1000)
      >>> embedded = [tf.feature_column.embedding_column(items, 16)]
      >>> sequences, lengths = tf.contrib.feature_column.sequence_input_layer(features, embedded)
    """
    with tf.variable_scope(
        None, default_name="sequence_input_layer", values=list(features.values())
    ):
        sequences, lengths = sequences_of_columns(
            features, feature_columns, weight_collections, trainable
        )
        first = lengths[0]
        same = [tf.assert_equal(first, other) for other in lengths[1:]]
        with tf.control_dependencies(same):
            return tf.concat(sequences, -1), tf.identity(first)


__getattr__ = missing_from(__name__, {"*": "tf.feature_column"})
