"""A program for two ranks of Horovod, whose script has whole tables, which sessions shard.

Rank 1 fails as the argument says, after rank 0 has sent gradients: `between` the lookup and its own
gradients, or `last`, when the step has sent everything.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.step_calls import own_message
from graph_opt.sharding.horovod_transport import horovod
from tests.sharding.faulty_ranks import FAILS, STEPS, outlive_launcher
from tests.sharding.guarded_model import ROWS, torn


def build(fails_between: Any, fails_last: Any) -> tf.Operation:
    """A training step with gradients of a table and of weights that all ranks have."""
    table = tf.get_variable("table", initializer=np.ones([ROWS, 2], np.float32), use_resource=True)
    kernel = tf.get_variable("kernel", initializer=np.ones([2, 1], np.float32), use_resource=True)
    loss = tf.reduce_sum(tf.matmul(tf.nn.embedding_lookup(table, [0, 1, 5]), kernel))
    checked = tf.py_func(torn, [loss, fails_between, "between"], tf.float32)
    optimizer = horovod().DistributedOptimizer(tf.train.GradientDescentOptimizer(0.0))
    gradients = optimizer.compute_gradients(
        loss, [table, kernel], grad_loss=tf.ensure_shape(checked, [])
    )
    with tf.control_dependencies([optimizer.apply_gradients(gradients)]):
        return tf.group(tf.py_func(torn, [loss, fails_last, "last"], tf.float32))


def main(fault: str) -> None:
    """Trains; says what the first step that failed has raised, and how long it took."""
    outlive_launcher()
    horovod().init()
    mine = horovod().rank() == FAILS
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.shard_tables = True
    config.graph_options.optimizer_options.shard_tables_options.min_table_bytes = 1
    with tf.Graph().as_default():
        between, last = (tf.placeholder_with_default(False, []) for _ in range(2))
        train = build(between, last)
        with graph_opt.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(STEPS):
                session.run(train)
            begun = time.monotonic()
            feeds = {between: mine and fault == "between", last: mine and fault == "last"}
            try:
                for _ in range(STEPS):
                    session.run(train, feeds)
            except tf.errors.OpError as error:
                told = type(error).__name__, own_message(error).partition("\n")[0]
                seconds = time.monotonic() - begun
                line = "rank {}: {}: {}: {:.1f} s\n".format(int(mine), *told, seconds)
                os.write(1, line.encode("utf-8"))


if __name__ == "__main__":
    main(sys.argv[1])
