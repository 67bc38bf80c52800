"""A model fed from Python, batch by batch, trained with graph_opt or without it.

    python feed_dict.py                  a stage draws the batches; lookups run ahead of the step
    python feed_dict.py --mode fused     session.run(..., feed_dict) as ever; lookups are one op
    python feed_dict.py --mode stock     the same by TensorFlow alone, to compare

A value that `session.run` feeds is there only when the step begins, too late to look anything up
ahead of it. `graph_opt.staged` takes the generator instead, and feeds the batches from its thread.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Iterator, List, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt

LOG_STEPS = 100
USERS, ITEMS, DIMENSION, BATCH, HISTORY = 20000, 5000, 16, 256, 10


def batches() -> Iterator[Tuple[np.ndarray, ...]]:
    """Users [B], items that each has seen [B, HISTORY], an item shown [B], and clicks [B]."""
    random = np.random.RandomState(1)
    while True:
        user = random.zipf(1.2, BATCH) % USERS
        seen = random.zipf(1.2, [BATCH, HISTORY]) % ITEMS
        item = random.zipf(1.2, BATCH) % ITEMS
        odds = np.where(user % 2 == item % 2, 0.9, 0.1)
        yield user, seen, item, (random.rand(BATCH) < odds).astype(np.float32)


def placeholders() -> List[tf.Tensor]:
    """What a batch is fed to."""
    return [
        tf.placeholder(tf.int64, [None], "user"),
        tf.placeholder(tf.int64, [None, HISTORY], "seen"),
        tf.placeholder(tf.int64, [None], "item"),
        tf.placeholder(tf.float32, [None], "click"),
    ]


def training_step(batch: Sequence[tf.Tensor]) -> Tuple[tf.Operation, tf.Tensor]:
    """The train op and the loss."""
    user, seen, item, click = batch
    user_table = tf.get_variable("user_table", [USERS, DIMENSION])
    item_table = tf.get_variable("item_table", [ITEMS, DIMENSION])
    person = tf.nn.embedding_lookup(user_table, user)
    history = tf.reduce_mean(tf.nn.embedding_lookup(item_table, seen), axis=1)
    shown = tf.nn.embedding_lookup(item_table, item)
    hidden = tf.concat([person, history, shown], axis=1)
    for units in (64, 32):
        hidden = tf.layers.dense(hidden, units, tf.nn.relu)
    loss = tf.losses.sigmoid_cross_entropy(click, tf.squeeze(tf.layers.dense(hidden, 1), axis=1))
    return tf.train.AdagradOptimizer(0.1).minimize(loss), loss


def session_config(mode: str) -> Any:
    """What asks for graph_opt: one flag to fuse the lookups, one to run them ahead of the step."""
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    options.do_async_embedding = mode == "both"
    options.async_embedding_options.threads_num = 1
    options.async_embedding_options.capacity = 2
    return config


def train(mode: str, steps: int) -> None:
    """Trains for so many batches."""
    tf.set_random_seed(1)
    fed = placeholders()
    is_staged = mode == "both"
    batch = graph_opt.staged(fed, feed_dict={tuple(fed): batches()}) if is_staged else fed
    train_op, loss = training_step(batch)
    if mode == "stock":
        session = tf.Session()
    else:
        session = graph_opt.Session(config=session_config(mode))
    source = batches()
    with session:
        session.run(tf.global_variables_initializer())
        start = time.time()
        for step in range(1, steps + 1):
            feeds = None if is_staged else dict(zip(fed, next(source)))
            _, value = session.run([train_op, loss], feeds)
            if step % LOG_STEPS == 0:
                rate = LOG_STEPS / (time.time() - start)
                print("step {}: loss {:.6f}, {:.1f} steps/s".format(step, value, rate))
                start = time.time()
    if mode != "stock":
        print(graph_opt.report())


def main() -> None:
    """Trains as the command line says."""
    parser = argparse.ArgumentParser(description="Train from feed_dict, with graph_opt or without.")
    parser.add_argument("--mode", choices=["stock", "fused", "both"], default="both")
    parser.add_argument("--steps", type=int, default=500)
    args = parser.parse_args()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    train(args.mode, args.steps)


if __name__ == "__main__":
    main()
