"""A typical small TensorFlow 1 training script that knows nothing about graph_opt."""

import argparse
import sys
from typing import Dict

import numpy as np
import tensorflow as tf
from lookups import lookup  # type: ignore[import-not-found]  # a module beside the script


def batches(epochs: int) -> Dict[str, tf.Tensor]:
    rows = {"ids": np.arange(50, dtype=np.int64) % 10, "label": np.ones([50], np.float32)}
    dataset = tf.data.Dataset.from_tensor_slices(rows).repeat(epochs).batch(8)
    return tf.data.make_one_shot_iterator(dataset).get_next()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--forever", action="store_true")
    parser.add_argument("--config", default="")
    flags = parser.parse_args()
    features = batches(-1 if flags.forever else 1)
    if "staged" in flags.config:
        features = tf.staged(features)
    predictions = tf.reduce_sum(lookup(features["ids"]), 1)
    loss = tf.reduce_mean(tf.square(predictions - features["label"]))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdagradOptimizer(0.0).minimize(loss, global_step=step)
    config = tf.ConfigProto(allow_soft_placement=True)
    if "own" in flags.config:
        options = config.graph_options.optimizer_options
        options.do_async_embedding = True
        options.async_embedding_options.threads_num = 3
        options.async_embedding_options.capacity = 5
    losses = []
    with tf.train.MonitoredTrainingSession(config=config) as session:
        while not session.should_stop():
            losses.append(session.run([train, loss])[1])
            if flags.forever and len(losses) == 2:
                print("running", flush=True)
            if flags.fail and len(losses) == 2:
                raise KeyError("a mistake in the script")
    graph = tf.get_default_graph()
    puts = [op for op in graph.get_operations() if op.type == "TensorBufferPut"]
    print("steps", len(losses), "same", np.allclose(losses[0], 1.0))
    for put in puts:
        print(put.get_attr("_stage_kind"), put.get_attr("_stage_threads"))
        print("capacity", put.get_attr("shared_capacity"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
