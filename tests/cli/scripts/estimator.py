"""Trains a tf.estimator for a few steps."""

import sys

import numpy as np
import tensorflow as tf


def input_fn() -> tf.data.Dataset:
    rows = {"ids": np.arange(40, dtype=np.int64) % 10}
    labels = np.arange(40, dtype=np.int64) % 2
    return tf.data.Dataset.from_tensor_slices((rows, labels)).repeat().batch(8)


column = tf.feature_column.categorical_column_with_identity("ids", 10)
embedded = tf.feature_column.embedding_column(column, 4)
config = tf.estimator.RunConfig(model_dir=sys.argv[1], session_config=tf.ConfigProto())
model = tf.estimator.DNNClassifier([8], [embedded], config=config)
model.train(input_fn, max_steps=5)
print("trained to", model.get_variable_value("global_step"))
