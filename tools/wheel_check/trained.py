"""Trains a small model with fused lookups that run ahead, where a wheel was installed.

Prints the loss, what the kernels compute with, and what came of the config. It fails unless the
loss is a number.
"""

from __future__ import annotations

import math

import tensorflow.compat.v1 as tf

import graph_opt

STEPS = 20


def train() -> float:
    """The loss of the last step."""
    tf.disable_v2_behavior()
    tf.set_random_seed(1)
    visits = tf.data.Dataset.range(64 * STEPS).map(lambda i: (i * i % 500, i * 7 % 200, i % 2))
    user, item, click = tf.data.make_one_shot_iterator(visits.batch(64)).get_next()
    users, items = tf.get_variable("users", [500, 16]), tf.get_variable("items", [200, 16])
    pooled = [tf.nn.embedding_lookup(users, user), tf.nn.embedding_lookup(items, item)]
    logits = tf.reduce_sum(pooled[0] * pooled[1], axis=1)
    loss = tf.losses.sigmoid_cross_entropy(click, logits)
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdagradOptimizer(0.1).minimize(loss, step)

    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    options.do_async_embedding = True
    options.async_embedding_options.threads_num = 1
    options.async_embedding_options.capacity = 2
    options.async_embedding_options.infer_io_stage = True
    last = math.nan
    with graph_opt.train.MonitoredTrainingSession(config=config) as session:
        while not session.should_stop():
            last, _ = session.run([loss, train_op])
    return float(last)


if __name__ == "__main__":
    final = train()
    assert math.isfinite(final), final
    print("loss {:.6f}, instruction set {}".format(final, graph_opt.instruction_set(16)))
    print(graph_opt.report())
