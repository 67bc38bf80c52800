"""A training script as users of DeepRec write it; `graph-opt run` runs it."""

# ruff: noqa
# mypy: ignore-errors
import json
import sys
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.embedding import config_pb2
from tensorflow.python.framework import ops
from tensorflow.python.ops import variables

STEPS = 8


def options():
    storage = variables.StorageOption(storage_type=config_pb2.StorageType.DRAM)
    return tf.EmbeddingVariableOption(
        evict_option=tf.GlobalStepEvict(steps_to_live=4000),
        filter_option=tf.CounterFilter(filter_freq=2),
        storage_option=storage,
        init_option=tf.InitializerOption(tf.glorot_uniform_initializer, default_value_dim=8),
    )


def batches():
    random = np.random.RandomState(1)
    for _ in range(STEPS):
        users = random.zipf(1.3, 16) * 7919 + 2**40
        features = {"user": users[:, None], "tag": random.choice([b"a", b"b", b""], (16, 2))}
        yield features, (users % 2).astype(np.float32)


def input_fn():
    types = ({"user": tf.int64, "tag": tf.string}, tf.float32)
    return tf.data.Dataset.from_generator(batches, types, ({"user": [16, 1], "tag": [16, 2]}, [16]))


def logits_of(features):
    users = tf.feature_column.categorical_column_with_embedding(
        "user", dtype=tf.int64, ev_option=options()
    )
    tags = tf.feature_column.categorical_column_with_embedding("tag")
    columns = [
        tf.feature_column.embedding_column(users, dimension=8, do_fusion="v2"),
        tf.feature_column.embedding_column(tags, dimension=4, combiner="mean"),
    ]
    with tf.variable_scope("tables", partitioner=tf.fixed_size_partitioner(2)):
        layer = tf.feature_column.input_layer(features, columns)
    return tf.reduce_sum(layer, axis=1)


def model_fn(features, labels, mode):
    logits = logits_of(features)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"logits": logits})
    loss = tf.losses.sigmoid_cross_entropy(labels, logits)
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdagradDecayOptimizer(learning_rate=0.1, global_step=step)
    train_op = optimizer.minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def with_estimator():
    estimator = tf.estimator.Estimator(
        model_fn, tempfile.mkdtemp(), tf.estimator.RunConfig(tf_random_seed=1)
    )
    estimator.train(input_fn)
    evaluated = estimator.evaluate(input_fn, steps=2)
    predicted = [float(one["logits"]) for one in estimator.predict(input_fn)]
    return round(float(evaluated["loss"]), 5), len(predicted)


def trained_on(folder):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        table = tf.get_embedding_variable(
            "users",
            embedding_dim=8,
            key_dtype=tf.int64,
            initializer=tf.random_normal_initializer(seed=1),
            partitioner=tf.fixed_size_partitioner(num_shards=4),
        )
        assert len(ops.get_collection(tf.GraphKeys.EMBEDDING_VARIABLES)) == 4
        (features, labels) = tf.data.make_one_shot_iterator(input_fn()).get_next()
        rows = tf.nn.embedding_lookup(table, features["user"][:, 0])
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, 1) - labels))
        step = tf.train.get_or_create_global_step()
        train_op = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
        count = tf.add_n([part.total_count()[0] for part in table])
        losses = []
        with tf.train.MonitoredTrainingSession(checkpoint_dir=folder) as session:
            session.run(ops.get_collection(tf.GraphKeys.EV_INIT_VAR_OPS))
            while len(losses) < STEPS:
                losses.append(round(float(session.run([loss, train_op])[0]), 5))
            rows = int(session.run(count))
        return losses, rows


folder = tempfile.mkdtemp()
first, rows = trained_on(folder)
later, restored = trained_on(folder)
assert later[0] < first[0] and restored == rows
print(json.dumps([first, later, rows, with_estimator() if "--estimator" in sys.argv else None]))
