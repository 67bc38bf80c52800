"""A training script with flags, `tf.app.run` and a session that nobody closes."""

from typing import List

import numpy as np
import tensorflow as tf

FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_integer("steps", 3, "How many.")
tf.app.flags.DEFINE_bool("fail", False, "Whether to end with an error.")


def main(arguments: List[str]) -> None:
    rows = tf.data.Dataset.from_tensor_slices(np.arange(40, dtype=np.int64) % 10)
    ids = rows.repeat().batch(8).make_one_shot_iterator().get_next()
    table = tf.get_variable("table", [10, 4])
    loss = tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, ids)))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    for _ in range(FLAGS.steps):
        session.run(train)
    if FLAGS.fail:
        raise KeyError("a mistake in the script")
    operations = tf.get_default_graph().get_operations()
    stages = sum(operation.type == "TensorBufferPut" for operation in operations)
    print(arguments, FLAGS.steps, "steps", stages, "stages")


if __name__ == "__main__":
    tf.app.run()
