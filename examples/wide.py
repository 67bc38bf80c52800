"""Wide: 200 multi-hot columns of ids under a small network, trained with graph_opt or without it.

    python wide.py                               on rows that it makes up
    python wide.py --data 'rows/*.tfrecord'      on your own, see `features_of`
    python wide.py --mode stock                  by TensorFlow alone, to compare

A model like this spends its time in lookups: as many small operations for each column as TensorFlow
needs for one lookup, its gradient and its update. graph_opt makes them one operation for all.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any, Dict, List

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt

LOG_STEPS = 20
DIMENSION = 8
MOST_IDS = 5


def column_names(count: int) -> List[str]:
    """Names of the multi-hot columns."""
    return ["column_{:03d}".format(number) for number in range(count)]


def read_rows(pattern: str, batch: int, epochs: int) -> tf.Tensor:
    """The next batch of serialized tf.train.Examples, [B]."""
    files = sorted(tf.gfile.Glob(pattern))
    if not files:
        raise SystemExit("no file matches {}".format(pattern))
    rows = tf.data.TFRecordDataset(files).repeat(epochs).batch(batch).prefetch(4)
    return tf.data.make_one_shot_iterator(rows).get_next()


def features_of(rows: tf.Tensor, columns: int) -> Dict[str, Any]:
    """A SparseTensor of ids for each column, any number of them in a row, and the label [B, 1]."""
    spec: Dict[str, Any] = {name: tf.VarLenFeature(tf.int64) for name in column_names(columns)}
    spec["label"] = tf.FixedLenFeature([1], tf.float32)
    return tf.io.parse_example(rows, spec)


def logits(features: Dict[str, Any], columns: int, buckets: int) -> tf.Tensor:
    """The model's output [B, 1]: the mean row of each column's ids, and two layers over all."""
    means = []
    for name in column_names(columns):
        table = tf.get_variable(name, [buckets, DIMENSION])
        raw = features[name]
        ids = tf.SparseTensor(raw.indices, tf.floormod(raw.values, buckets), raw.dense_shape)
        means.append(tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="mean"))
    hidden = tf.concat(means, axis=1)
    for units in (64, 32):
        hidden = tf.layers.dense(hidden, units, tf.nn.relu)
    return tf.layers.dense(hidden, 1)


def session_config(mode: str) -> Any:
    """What asks for graph_opt: one flag to fuse the lookups, one to run them ahead of the step."""
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = mode in ("fused", "both")
    options.do_async_embedding = mode in ("async", "both")
    options.async_embedding_options.threads_num = 1
    options.async_embedding_options.capacity = 2
    options.async_embedding_options.infer_io_stage = True
    return config


def train(args: argparse.Namespace) -> None:
    """Trains to the end of the data and saves a checkpoint."""
    tf.set_random_seed(1)
    features = features_of(read_rows(args.data, args.batch, args.epochs), args.columns)
    output = logits(features, args.columns, args.buckets)
    loss = tf.losses.sigmoid_cross_entropy(features["label"], output)
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdagradOptimizer(args.learning_rate).minimize(loss, step)
    saver = tf.train.Saver()
    if args.mode == "stock":
        session = tf.Session()
    else:
        session = graph_opt.Session(config=session_config(args.mode))
    with session:
        session.run(tf.global_variables_initializer())
        start = time.time()
        try:
            while True:
                _, number, value = session.run([train_op, step, loss])
                if number % LOG_STEPS == 0:
                    rate = LOG_STEPS / (time.time() - start)
                    print("step {}: loss {:.6f}, {:.1f} steps/s".format(number, value, rate))
                    start = time.time()
        except tf.errors.OutOfRangeError:
            print("end of the data after step {}".format(session.run(step)))
        if args.checkpoint:
            print("saved {}".format(saver.save(session, args.checkpoint, step)))
    if args.mode != "stock":
        print(graph_opt.report())


def make_rows(path: str, columns: int, rows: int) -> None:
    """Writes rows of 0 to 5 ids a column, where the first column's odd ids are clicked on more."""
    random = np.random.RandomState(1)
    with tf.io.TFRecordWriter(path) as file:
        for _ in range(rows):
            example = tf.train.Example()
            feature = example.features.feature
            for name in column_names(columns):
                ids = random.zipf(1.3, random.randint(MOST_IDS + 1)) % (1 << 24)
                feature[name].int64_list.value.extend(ids)
            odd = np.mean([value % 2 for value in feature["column_000"].int64_list.value] or [0.5])
            feature["label"].float_list.value.append(float(random.rand() < 0.1 + 0.8 * odd))
            file.write(example.SerializeToString())


def main() -> None:
    """Reads the command line, makes rows where none are given, and trains."""
    parser = argparse.ArgumentParser(description="Train a wide model with graph_opt or without it.")
    parser.add_argument("--data", help="pattern of TFRecord files")
    parser.add_argument("--mode", choices=["stock", "fused", "async", "both"], default="both")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--buckets", type=int, default=20000, help="rows of each table")
    parser.add_argument("--learning-rate", type=float, default=0.3)
    parser.add_argument("--checkpoint", help="path of the checkpoint")
    parser.add_argument("--rows", type=int, default=2048, help="rows to make up")
    args = parser.parse_args()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    with tempfile.TemporaryDirectory() as folder:
        if not args.data:
            args.data = folder + "/rows.tfrecord"
            make_rows(args.data, args.columns, args.rows)
        train(args)


if __name__ == "__main__":
    main()
