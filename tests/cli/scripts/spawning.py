"""Opens sessions in its own process and in one that it spawns."""

import multiprocessing
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

from graph_opt import ConfigProto  # Loads TensorFlow before the script does.

CONFIG = ConfigProto()

import tensorflow as tf  # noqa: E402


def train(where: str) -> None:
    ids = tf.data.Dataset.range(8).repeat().batch(4).make_one_shot_iterator().get_next()
    table = tf.get_variable("table", [8, 4])
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids)))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
    operations = tf.get_default_graph().get_operations()
    stages = sum(operation.type == "TensorBufferPut" for operation in operations)
    print(where, stages, "stages", flush=True)


if __name__ == "__main__":
    print("before", tf.__version__, flush=True)
    child = multiprocessing.get_context("spawn").Process(target=train, args=("in child",))
    child.start()
    child.join()
    train("in parent")
    raise SystemExit(child.exitcode)
