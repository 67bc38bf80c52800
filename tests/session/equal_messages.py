"""Counts the messages of a step whose tables are looked up with the same ids; run as a process."""

from __future__ import annotations

import sys

import horovod.tensorflow as hvd
import tensorflow.compat.v1 as tf

import graph_opt

TABLES = 3


def main() -> None:
    hvd.init()
    tf.disable_v2_behavior()
    ids = tf.placeholder(tf.int64, [None])
    gathered = [hvd.allgather(ids, name="ids_{}".format(table)) for table in range(TABLES)]
    opened = {"stock": tf.Session, "graph_opt": graph_opt.Session}[sys.argv[1]]
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    metadata = tf.RunMetadata()
    with opened() as session:
        values = session.run(gathered, {ids: [3, 1]}, options, metadata)
    assert [value.tolist() for value in values] == [[3, 1]] * TABLES
    nodes = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
    print("messages", sum("HorovodAllgather" in node.timeline_label for node in nodes))


main()
