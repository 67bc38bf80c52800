"""A program for each of two ranks of Horovod: rank 0 alone fetches summaries.

The argument says who trains: `fused` and `sharded` sessions of graph_opt, tables of `sok` in a
session of graph_opt, and in one of TensorFlow (`plain`); `called` is `fused` with messages in a
loop and in a branch, too. With TensorFlow alone (`stock`), the ranks wait for each other forever.
"""

from __future__ import annotations

import sys
from typing import Any, List

import numpy as np

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod
from tests.passes.fused_models import config
from tests.plain_sessions import plain_session

ROWS, WIDTH, STEPS = 20, 4, 6


def build(tables_of_sok: bool, called: bool) -> Any:
    """A training step, and a summary in whose conditional TensorFlow numbers more nodes."""
    ids = tf.placeholder(tf.int64, [None, 2], name="ids")
    rows = np.random.RandomState(1).rand(ROWS, WIDTH).astype(np.float32)
    if tables_of_sok:
        table = sok.Variable(rows, name="table")
        bags = tf.RaggedTensor.from_tensor(ids)
        pooled = sok.lookup_sparse([table], [bags], combiners=["sum"])[0]
    else:
        table = tf.get_variable("table", initializer=rows, use_resource=True)
        pooled = tf.reduce_sum(tf.nn.embedding_lookup(table, ids), axis=1)
    kernel = tf.get_variable("kernel", [WIDTH, 1], initializer=tf.ones_initializer())
    many = tf.cond(tf.size(ids) > 3, lambda: tf.reduce_sum(ids), lambda: tf.reduce_max(ids))
    logits = tf.matmul(pooled, kernel)
    loss = tf.reduce_mean(tf.square(logits - 1.0))
    with tf.name_scope("aaa"):  # before all others in every order
        summary = tf.summary.scalar("many", tf.cast(many, tf.float32))
    optimizer = horovod().DistributedOptimizer(tf.train.MomentumOptimizer(0.01, 0.9))
    train = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    if called:
        train = tf.group(train, all_losses(loss))
    return train, tf.summary.merge([summary, tf.summary.scalar("loss", loss)])


def all_losses(loss: Any) -> tf.Tensor:
    """Messages in functions that a step calls more than once, or may not call."""
    added = tf.while_loop(
        lambda number, _: number < 2,
        lambda number, x: (number + 1, horovod().allreduce(x, op=horovod().Sum)),
        [0, loss],
    )[1]
    mean = tf.cond(added > -1.0, lambda: horovod().allreduce(loss), lambda: loss)
    with tf.control_dependencies([tf.debugging.assert_near(added, 4.0 * mean, rtol=1e-3)]):
        return tf.identity(mean)


def train(session: Any, step: Any, summary: Any) -> List[np.ndarray]:
    """The variables that all ranks share after some steps."""
    rank = horovod().rank()
    session.run(tf.global_variables_initializer())
    for number in range(STEPS):
        fetches = [step, summary] if rank == 0 and number % 2 else [step]
        fed = np.random.RandomState([number, rank]).randint(0, ROWS, [4, 2])
        session.run(fetches, {"ids:0": fed})
    return session.run([one for one in tf.global_variables() if one.op.name == "kernel"])


def main(way: str) -> None:
    """Runs as one of two ranks; an assertion that fails ends both."""
    tf.enable_control_flow_v2()
    horovod().init()
    if way in ("sok", "plain"):
        sok.init()
    options = config()
    options.graph_options.optimizer_options.shard_tables = way == "sharded"
    options.graph_options.optimizer_options.shard_tables_options.min_table_bytes = 1
    with tf.Graph().as_default():
        step, summary = build(way in ("sok", "plain"), way == "called")
        stock = way in ("plain", "stock")
        open_session = plain_session() if stock else graph_opt.Session(config=options)
        with open_session as session:
            (kernel,) = train(session, step, summary)
    both = tf.Graph()
    with both.as_default(), plain_session() as session:
        kernels = session.run(horovod().allgather(tf.constant(kernel), name="kernels"))
    np.testing.assert_array_equal(kernels[:WIDTH], kernels[WIDTH:])
    print("rank {} is done".format(horovod().rank()))


if __name__ == "__main__":
    main(sys.argv[1])
