"""A script of TensorFlow 1 that is told its task by flags, and can be killed in its first run."""

from __future__ import annotations

import os
import signal

import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_string("job_name", "", "ps or worker")
flags.DEFINE_integer("task_index", 0, "its number")
flags.DEFINE_string("ps_hosts", "", "addresses")
flags.DEFINE_string("worker_hosts", "", "addresses")
flags.DEFINE_string("folder", "", "of the checkpoint")
flags.DEFINE_boolean("killed", False, "whether the first run of worker 0 ends itself")
FLAGS = flags.FLAGS


def main(_: object) -> None:
    cluster = tf.train.ClusterSpec(
        {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    )
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    worker = "/job:worker/task:{}".format(FLAGS.task_index)
    with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        ids = tf.data.Dataset.range(10**6).map(lambda i: i % 50).batch(16)
        ids = tf.data.make_one_shot_iterator(ids).get_next()
        table = tf.get_variable("table", [50, 4], partitioner=tf.fixed_size_partitioner(2))
        rows = tf.nn.embedding_lookup(table, ids, partition_strategy="div")
        loss = tf.reduce_mean(tf.square(rows - 1.0))
        step = tf.train.get_or_create_global_step()
        train_op = tf.train.AdagradOptimizer(0.3).minimize(loss, step)
    was_here = os.path.join(FLAGS.folder, "worker_{}_was_here".format(FLAGS.task_index))
    is_first_run = not os.path.exists(was_here)
    open(was_here, "w").close()
    with tf.train.MonitoredTrainingSession(
        server.target,
        FLAGS.task_index == 0,
        FLAGS.folder + "/model",
        hooks=[tf.train.StopAtStepHook(last_step=300)],
        config=tf.ConfigProto(device_filters=["/job:ps", worker]),
        save_checkpoint_steps=20,
    ) as session:
        while not session.should_stop():
            number, value, _ = session.run([step, loss, train_op])
            if FLAGS.killed and FLAGS.task_index == 0 and is_first_run and number > 50:
                os.kill(os.getpid(), signal.SIGKILL)
    print("loss below 0.1:", value < 0.1)


tf.app.run()
