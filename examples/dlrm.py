"""DLRM on Criteo's click logs: 26 tables, trained with graph_opt or without it.

    python dlrm.py                                    on rows that it makes up
    python dlrm.py --data 'criteo/day_*' --epochs 1   on Criteo's tab-separated files
    python dlrm.py --mode stock                       by TensorFlow alone, to compare
    python dlrm.py --dynamic                          with rows for the ids that came last
    graph-opt cluster --ps 2 --workers 2 -- dlrm.py   with parameter servers on this machine
In any other cluster, run it once in each process; TF_CONFIG says, as for an Estimator, which.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from typing import Any, Dict, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt

DIMENSION, COUNTERS, LOG_STEPS = 16, 13, 50
OPTIMIZERS = {"adagrad": tf.train.AdagradOptimizer, "adam": tf.train.AdamOptimizer}
PARTITIONERS = {"fixed": tf.fixed_size_partitioner, "min_max": tf.min_max_variable_partitioner}
CATEGORIES = ["C{}".format(number) for number in range(1, 27)]


def read_rows(pattern: str, batch: int, epochs: int) -> Tuple[Dict[str, tf.Tensor], tf.Tensor]:
    """The next batch: features, and label [B, 1]. Any field of a row but the label may be empty."""
    files = sorted(tf.gfile.Glob(pattern)) or sys.exit("no file matches " + pattern)
    defaults = [tf.constant([], tf.float32)] + [[0.0]] * COUNTERS + [[""]] * len(CATEGORIES)

    def decode(lines: tf.Tensor) -> Tuple[Dict[str, tf.Tensor], tf.Tensor]:
        columns = [one[:, tf.newaxis] for one in tf.io.decode_csv(lines, defaults, "\t", False)]
        features = dict(zip(CATEGORIES, columns[1 + COUNTERS :]))
        features["counters"] = tf.log1p(tf.nn.relu(tf.concat(columns[1 : 1 + COUNTERS], axis=1)))
        return features, columns[0]

    lines = tf.data.TextLineDataset(files).repeat(epochs).batch(batch)
    return tf.data.make_one_shot_iterator(lines.map(decode, 4).prefetch(4)).get_next()


def logits(features: Dict[str, tf.Tensor], args: argparse.Namespace) -> tf.Tensor:
    """The model's output [B, 1]; see https://arxiv.org/abs/1906.00091."""
    small = tf.truncated_normal_initializer(stddev=0.01)  # untrained rows are noise
    latest = graph_opt.EmbeddingVariableOption(evict_option=graph_opt.CapacityEvict(args.buckets))
    categories = [
        graph_opt.categorical_column_with_embedding(name, tf.string, ev_option=latest)
        if args.dynamic
        else tf.feature_column.categorical_column_with_hash_bucket(name, args.buckets)
        for name in CATEGORIES
    ]
    columns = [graph_opt.embedding_column(one, DIMENSION, "mean", small) for one in categories]
    embeddings = tf.feature_column.input_layer(features, columns)
    dense = dense_layers(features["counters"], (512, 256, 64, DIMENSION), "bottom")
    count = 1 + len(columns)
    vectors = tf.reshape(tf.concat([dense, embeddings], axis=1), [-1, count, DIMENSION])
    products = tf.reshape(tf.matmul(vectors, vectors, transpose_b=True), [-1, count * count])
    pairs = tf.gather(products, np.flatnonzero(np.tri(count, k=-1)), axis=1)
    return tf.layers.dense(dense_layers(tf.concat([dense, pairs], 1), (512, 256), "top"), 1)


def dense_layers(inputs: tf.Tensor, sizes: Sequence[int], name: str) -> tf.Tensor:
    """Layers with ReLU, [B, ...] -> [B, sizes[-1]]."""
    with tf.variable_scope(name):
        for number, units in enumerate(sizes):
            inputs = tf.layers.dense(inputs, units, tf.nn.relu, name="layer_{}".format(number))
        return inputs


def session_config(mode: str, filters: Sequence[str]) -> Any:
    """What asks for graph_opt: one flag to fuse the lookups, one to run them ahead of the step."""
    if mode == "stock":
        return tf.ConfigProto(device_filters=filters)
    config = graph_opt.ConfigProto(device_filters=filters)
    options = config.graph_options.optimizer_options
    options.do_group_embedding = mode in ("fused", "both")
    options.do_async_embedding = mode in ("async", "both")
    ahead = options.async_embedding_options
    ahead.threads_num, ahead.capacity, ahead.infer_io_stage = 1, 2, True
    return config


def train(args: argparse.Namespace, place: Any) -> None:
    """Trains until `args.steps` or the end of the data; `place` is the process's in a cluster."""
    cluster = place.cluster_spec()
    worker = "/job:{}/task:{}".format(place.task_type, place.task_id)
    device = tf.train.replica_device_setter(worker_device=worker, cluster=cluster)
    servers = cluster.num_tasks("ps") if cluster else 1
    slices = PARTITIONERS[args.partition](servers) if args.partition else None
    with tf.device(device), tf.variable_scope("", partitioner=slices):
        tf.set_random_seed(1)
        features, label = read_rows(args.data, args.batch, args.epochs)
        loss = tf.losses.sigmoid_cross_entropy(label, logits(features, args))
        step = tf.train.get_or_create_global_step()
        train_op = OPTIMIZERS[args.optimizer](args.learning_rate).minimize(loss, step)
    api = tf if args.mode == "stock" else graph_opt
    config = session_config(args.mode, ["/job:ps", worker] if cluster else [])
    is_chief = not cluster or place.task_type == "chief"
    hooks = [tf.train.StopAtStepHook(last_step=args.steps)]
    with api.train.MonitoredTrainingSession(
        place.master(), is_chief, args.checkpoint_dir, hooks=hooks, config=config
    ) as session:
        start = time.time()
        while not session.should_stop():
            _, number, value = session.run([train_op, step, loss])
            if number % LOG_STEPS == 0:
                speed, start = LOG_STEPS / (time.time() - start), time.time()
                print("step {}: loss {:.6f}, {:.1f} steps/s".format(number, value, speed))
    if api is graph_opt:
        print(graph_opt.report())


def make_rows(path: str, rows: int = 20000) -> str:
    """Writes rows in Criteo's format, where even ids are clicked on more often."""
    random = np.random.RandomState(1)
    counters = random.poisson(3.0, [rows, COUNTERS])
    ids = random.zipf(1.3, [rows, len(CATEGORIES)]) % 1000
    clicks = random.rand(rows) < (ids % 2 == 0).mean(axis=1)
    np.savetxt(path, np.column_stack([clicks, counters, ids]), "%d", "\t")
    return path


def main() -> None:
    """Trains; or, as a parameter server, serves until the process is ended."""
    parser = argparse.ArgumentParser(description="Train DLRM with graph_opt or without it.")
    parser.add_argument("--data", help="pattern of Criteo's files")
    parser.add_argument("--mode", choices=["stock", "fused", "async", "both"], default="both")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=-1, help="passes over the data, -1: no end")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--buckets", type=int, default=100000, help="rows of a table (at most)")
    parser.add_argument("--dynamic", action="store_true", help="rows for the latest ids")
    parser.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="adagrad")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="for adam 0.001 is usual")
    parser.add_argument("--checkpoint-dir")
    parser.add_argument("--partition", choices=PARTITIONERS, help="how servers divide variables")
    args = parser.parse_args()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    place = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    if place.cluster_spec():
        graph_opt.load_op_library()  # a server with the ops looks up all its tables at once
        server = tf.train.Server(place.cluster_spec(), place.task_type, place.task_id)
        if place.task_type == "ps":
            server.join()
    with tempfile.TemporaryDirectory() as folder:
        args.data = args.data or make_rows(folder + "/rows.tsv")
        train(args, place)


if __name__ == "__main__":
    main()
