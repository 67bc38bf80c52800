"""Trains on rows of a server, and writes the page of it: `delayed_server.py PAGE`."""

from __future__ import annotations

import json
import os
import sys

import tensorflow.compat.v1 as tf

import graph_opt

WARM_UP, TRACED = 20, 40


def main() -> None:
    """Is the server, or the chief, as `TF_CONFIG` says."""
    told = json.loads(os.environ["TF_CONFIG"])
    job, task = told["task"]["type"], told["task"]["index"]
    server = tf.train.Server(told["cluster"], job, task)
    if job == "ps":
        server.join()
    here = "/job:{}/task:{}".format(job, task)
    ids = tf.data.make_one_shot_iterator(tf.data.Dataset.range(64).repeat().batch(8)).get_next()
    with tf.device("/job:ps/task:0"):
        table = tf.get_variable("table", [64, 4], trainable=False)
    rows = tf.nn.embedding_lookup(table, ids)
    with tf.device(here):
        weights = tf.get_variable("weights", [4, 1])
        loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights) - 1.0))
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_async_embedding = True
    ahead = options.async_embedding_options
    ahead.threads_num, ahead.capacity, ahead.infer_io_stage = 1, 2, True
    hook = graph_opt.train.StepTraceHook()
    with graph_opt.train.MonitoredTrainingSession(
        server.target, config=config, hooks=[hook]
    ) as session:
        for step in range(WARM_UP + TRACED):
            hook.trace.detailed = step >= WARM_UP
            session.run(train_op)
        graph_opt.graph_report(session).save(sys.argv[1])


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
