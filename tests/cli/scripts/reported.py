"""Trains in a session that is fed, in one that reads a dataset, and in a child."""

import multiprocessing
import os
import subprocess
import sys

import tensorflow as tf

tf.logging.set_verbosity(tf.logging.FATAL)


def train(fed: bool) -> None:
    with tf.Graph().as_default():
        if fed:
            ids = tf.placeholder(tf.int64, [None])
        else:
            ids = tf.data.Dataset.range(8).batch(4).repeat().make_one_shot_iterator().get_next()
        tables = [tf.get_variable(name, [8, 4]) for name in ("first", "second")]
        rows = [tf.nn.embedding_lookup(table, ids) for table in tables]
        loss = tf.reduce_sum(tf.square(tf.concat(rows, 1)))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(step, {ids: [1, 2]} if fed else {})


if __name__ == "__main__":
    train(fed=False)
    train(fed=True)
    if "spawn" in sys.argv:
        child = multiprocessing.get_context("spawn").Process(target=train, args=(False,))
        child.start()
        child.join()
    if "start" in sys.argv:
        subprocess.check_call([sys.executable, __file__])
    if "kill" in sys.argv:
        os.abort()
    raise SystemExit(3 if len(sys.argv) > 1 else 0)
