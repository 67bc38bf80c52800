"""A rank of distributed-embeddings' messages, compared with whole tables of TensorFlow."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.collectives.stock_messages import LayerOfStockOps
from tools.bench.workloads.dlrm import model

ROWS, WIDTH, BATCH = 7, 2, 5


def main() -> None:
    """Fails if results or gradients differ."""
    tf.disable_v2_behavior()
    hvd.init()
    columns = model.embedding_columns(model.ModelOptions(buckets=ROWS, dimension=WIDTH))
    columns = sorted(columns, key=lambda column: column.name)  # type: ignore[attr-defined]
    tables = np.random.default_rng(1).normal(size=(len(columns), ROWS, WIDTH)).astype(np.float32)
    texts = np.random.default_rng(hvd.rank()).choice(["", "a", "b", "c"], (BATCH, len(columns)))
    features = {
        column.categorical_column.key: texts[:, place : place + 1]  # type: ignore[attr-defined]
        for place, column in enumerate(columns)
    }
    mine = list(range(hvd.rank(), len(columns), hvd.size()))
    with tf.Graph().as_default(), tf.Session() as session:
        layer = LayerOfStockOps()
        pooled = layer({key: tf.constant(value) for key, value in features.items()}, columns)
        (gradient,) = tf.gradients(tf.reduce_sum(pooled * pooled), layer.variables)
        session.run(tf.global_variables_initializer())
        layer.variables[0].load(np.concatenate(tables[mine]), session)
        found, gradients = session.run([pooled, tf.convert_to_tensor(gradient)])
    with tf.Graph().as_default(), tf.Session() as session:
        constants = {key: tf.constant(value) for key, value in features.items()}
        whole = tf.feature_column.input_layer(constants, columns)
        names = [column.name for column in columns]  # type: ignore[attr-defined]
        variables = {each.name.split("/")[-2]: each for each in tf.trainable_variables()}
        of_tables = tf.gradients(tf.reduce_sum(whole * whole), [variables[name] for name in names])
        summed = hvd.allreduce(tf.stack(list(map(tf.convert_to_tensor, of_tables))), op=hvd.Sum)
        session.run(tf.global_variables_initializer())
        for name, table in zip(names, tables):
            variables[name].load(table, session)
        expected, expected_gradients = session.run([whole, summed])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradients, np.concatenate(expected_gradients[mine]), rtol=1e-4)
    print("rank {} is done".format(hvd.rank()))


if __name__ == "__main__":
    main()
