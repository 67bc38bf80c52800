"""A script of TensorFlow 1 that decodes its lines in the graph; it knows nothing of graph_opt.

line -> label, ids, numbers        as texts
ids -> tables (none if --ids is 0)
numbers -> floats -> logarithms -> layers
"""

from __future__ import annotations

import argparse
from typing import Any, Tuple

import tensorflow.compat.v1 as tf

from tools.bench.deeprec.turn_hook import TurnHook

BUCKETS = 10000
WIDTH = 16


def lines_of(path: str, batch: int, repeated: bool) -> Any:
    """Batches of lines."""
    dataset = tf.data.TextLineDataset(path)
    dataset = dataset.repeat() if repeated else dataset
    return tf.data.make_one_shot_iterator(dataset.batch(batch).prefetch(2)).get_next()


def decoded(lines: Any, ids: int, numbers: int) -> Tuple[Any, Any, Any]:
    """Labels [B], ids [B, I] as texts, and the normalized numbers [B, N]."""
    label, id_texts, number_texts = tf.io.decode_csv(lines, [[0.0], [""], [""]], field_delim=";")
    columns = tf.io.decode_csv(id_texts, [[""]] * ids) if ids else []
    values = tf.stack(tf.io.decode_csv(number_texts, [[0.0]] * numbers), axis=1)
    return label, columns, tf.log1p(values) / 3.0 - 1.0


def logits_of(columns: Any, numbers: Any, units: int) -> Any:
    """Two layers over the numbers and the rows of the ids."""
    rows = [
        tf.nn.embedding_lookup(
            tf.get_variable("table_{}".format(place), [BUCKETS, WIDTH]),
            tf.strings.to_hash_bucket_fast(column, BUCKETS),
        )
        for place, column in enumerate(columns)
    ]
    net = tf.concat([*rows, numbers], axis=1)
    for layer in ("first", "second"):
        net = tf.layers.dense(net, units, tf.nn.relu, name=layer)
    return tf.layers.dense(net, 1, name="logits")[:, 0]


def train(arguments: argparse.Namespace) -> None:
    """Trains in a monitored session, which leaves a checkpoint."""
    lines = lines_of(arguments.data_location + "/train.csv", arguments.batch_size, True)
    label, columns, numbers = decoded(lines, arguments.ids, arguments.numbers)
    logits = logits_of(columns, numbers, arguments.units)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))
    step = tf.train.get_or_create_global_step()
    run_op = tf.train.AdagradOptimizer(0.05).minimize(loss, global_step=step)
    if arguments.decode_only:
        run_op = [label, numbers, *columns, tf.assign_add(step, 1)]
    hooks = [TurnHook(), tf.train.StopAtStepHook(last_step=arguments.steps)]
    with tf.train.MonitoredTrainingSession(
        hooks=hooks, checkpoint_dir=arguments.checkpoint, save_checkpoint_steps=arguments.steps
    ) as session:
        while not session.should_stop():
            session.run(run_op)


def evaluate(arguments: argparse.Namespace) -> None:
    """Prints the area under the curve for rows that were not trained on."""
    lines = lines_of(arguments.data_location + "/eval.csv", arguments.batch_size, False)
    label, columns, numbers = decoded(lines, arguments.ids, arguments.numbers)
    probability = tf.sigmoid(logits_of(columns, numbers, arguments.units))
    _, update = tf.metrics.auc(label, probability, num_thresholds=1000)
    tf.train.get_or_create_global_step()
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        tf.train.Saver().restore(session, tf.train.latest_checkpoint(arguments.checkpoint))
        try:
            while True:
                area = session.run(update)
        except tf.errors.OutOfRangeError:
            print("AUC = {}".format(area))


def main() -> None:
    """Trains and evaluates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_location", required=True)
    parser.add_argument("--checkpoint", default="trained")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--batch_size", type=int, default=512)
    parser.add_argument("--ids", type=int, default=0, help="columns with a table")
    parser.add_argument("--numbers", type=int, default=60, help="columns of numbers")
    parser.add_argument("--units", type=int, default=256, help="of a layer")
    parser.add_argument("--decode_only", action="store_true", help="train nothing")
    arguments = parser.parse_args()
    for run in (train,) if arguments.decode_only else (train, evaluate):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            run(arguments)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    main()
