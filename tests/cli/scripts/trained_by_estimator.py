"""An Estimator on a cluster: chief, workers and servers train, an evaluator evaluates.

python trained_by_estimator.py MODEL_FOLDER
"""

from __future__ import annotations

import sys

import tensorflow.compat.v1 as tf

tf.logging.set_verbosity(tf.logging.ERROR)
USERS = 100


def input_fn() -> tf.data.Dataset:
    visits = tf.data.Dataset.range(6400).map(lambda i: ({"user": i * 7 % USERS}, i * 7 % 2))
    return visits.repeat().batch(32)


column = tf.feature_column.categorical_column_with_identity("user", USERS)
model = tf.estimator.DNNClassifier(
    model_dir=sys.argv[1],
    hidden_units=[8],
    feature_columns=[tf.feature_column.embedding_column(column, 8)],
    optimizer=tf.train.AdagradOptimizer(0.5),
    config=tf.estimator.RunConfig(tf_random_seed=1),
)
tf.estimator.train_and_evaluate(
    model,
    tf.estimator.TrainSpec(input_fn, max_steps=400),
    tf.estimator.EvalSpec(input_fn, steps=10, start_delay_secs=0, throttle_secs=1),
)
if model.config.task_type == "evaluator":
    print({name: float(value) for name, value in model.evaluate(input_fn, steps=10).items()})
