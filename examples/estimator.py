"""Wide and deep on an Estimator, trained with graph_opt: train, evaluate, predict, export, serve.

    python estimator.py
    python estimator.py --stock      by TensorFlow alone, to compare
    graph-opt cluster --ps 2 --workers 2 --evaluator -- estimator.py --folder /tmp/clicks

The last one, like any process that finds its task in TF_CONFIG, calls `train_and_evaluate`.
All that differs is one hook of `train`. Checkpoints and the exported model are TensorFlow's own, so
that evaluation, prediction and serving need nothing of graph_opt.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from typing import Any, Dict, List, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt

ROWS, BATCH = 8192, 256
USERS, ITEMS, TAGS, MOST_TAGS = 5000, 2000, 100, 4


def make_rows(seed: int) -> Tuple[Dict[str, np.ndarray], np.ndarray]:
    """Columns and clicks of made-up visits; users and items whose numbers end alike get on."""
    random = np.random.RandomState(seed)
    user, item = random.zipf(1.2, ROWS) % USERS, random.zipf(1.2, ROWS) % ITEMS
    rows = {
        "user": user,
        "item": item,
        "tags": random.randint(-1, TAGS, [ROWS, MOST_TAGS]),  # -1 pads
        "age": random.uniform(15, 80, ROWS).astype(np.float32),
    }
    odds = 0.2 + 0.6 * (user % 2 == item % 2)
    return rows, (random.rand(ROWS) < odds).astype(np.float32)


def input_fn(seed: int, epochs: int = 1) -> tf.data.Dataset:
    """Batches of (columns, clicks)."""
    return tf.data.Dataset.from_tensor_slices(make_rows(seed)).repeat(epochs).batch(BATCH)


def columns() -> Tuple[List[Any], List[Any]]:
    """Feature columns of the linear and of the deep part."""
    column = tf.feature_column
    user = column.categorical_column_with_identity("user", USERS)
    item = column.categorical_column_with_identity("item", ITEMS)
    tags = column.categorical_column_with_identity("tags", TAGS)
    age = column.bucketized_column(column.numeric_column("age"), [25.0, 35.0, 50.0, 65.0])
    pair = column.crossed_column([user, item], 20000)
    embedded = [column.embedding_column(each, 16, combiner="mean") for each in (user, item, tags)]
    return [user, item, pair, age], [*embedded, column.indicator_column(age)]


def session_config() -> Any:
    """What asks for graph_opt: lookups fused, and run ahead of the step."""
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    options.do_async_embedding = True
    options.async_embedding_options.threads_num = 1
    options.async_embedding_options.capacity = 2
    options.async_embedding_options.infer_io_stage = True
    return config


def run(folder: str, hooks: List[tf.train.SessionRunHook], epochs: int) -> None:
    """Trains with the hooks, evaluates, predicts, exports and serves."""
    linear, deep = columns()
    model = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=folder + "/model",
        linear_feature_columns=linear,
        dnn_feature_columns=deep,
        dnn_hidden_units=[64, 32],
        dnn_optimizer=tf.train.AdagradOptimizer(0.05),
        linear_optimizer=tf.train.FtrlOptimizer(0.05),
        config=tf.estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=200),
    )
    if "TF_CONFIG" in os.environ:
        train_in_cluster(model, hooks, epochs)
        if model.config.task_type != "evaluator":
            return
    else:
        model.train(lambda: input_fn(seed=1, epochs=epochs), hooks)
    scores = model.evaluate(lambda: input_fn(seed=2))
    print("step {global_step}: AUC {auc:.4f}, loss {average_loss:.4f}".format(**scores))
    prediction = next(model.predict(lambda: input_fn(seed=3)))
    print("first visit: {:.4f}".format(prediction["logistic"][0]))
    serving = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        tf.feature_column.make_parse_example_spec(linear + deep)
    )
    serve(model.export_saved_model(folder + "/export", serving).decode())


def train_in_cluster(
    model: tf.estimator.Estimator, hooks: List[tf.train.SessionRunHook], epochs: int
) -> None:
    """Does what this process's task is to do, until all workers together have done all steps."""
    tf.estimator.train_and_evaluate(
        model,
        tf.estimator.TrainSpec(
            lambda: input_fn(seed=1, epochs=epochs), epochs * ROWS // BATCH, hooks
        ),
        tf.estimator.EvalSpec(
            lambda: input_fn(seed=2), steps=None, start_delay_secs=0, throttle_secs=1
        ),
    )


def serve(export: str) -> None:
    """Loads the exported model as a server does, and asks it for one probability."""
    example = tf.train.Example()
    example.features.feature["user"].int64_list.value.append(7)
    example.features.feature["item"].int64_list.value.append(5)
    example.features.feature["tags"].int64_list.value.extend([1, 2])
    example.features.feature["age"].float_list.value.append(40)
    with tf.Graph().as_default(), tf.Session() as session:
        model = tf.saved_model.load(session, [tf.saved_model.tag_constants.SERVING], export)
        signature = model.signature_def["predict"]
        scores = session.run(
            signature.outputs["logistic"].name,
            {signature.inputs["examples"].name: [example.SerializeToString()]},
        )
    print("served: {:.4f}".format(scores[0, 0]))


def main() -> None:
    """Runs in a folder that is gone afterwards."""
    parser = argparse.ArgumentParser(description="Wide and deep on an Estimator, with graph_opt.")
    parser.add_argument("--stock", action="store_true", help="TensorFlow alone, to compare")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--folder", help="of the checkpoints, which all tasks of a cluster see")
    args = parser.parse_args()
    if not hasattr(tf, "estimator"):
        sys.exit("Estimators ended with TensorFlow 2.15; this is " + tf.version.VERSION)
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    with tempfile.TemporaryDirectory() as folder:
        master = tf.estimator.RunConfig().master  # whose servers the lookups are fused on
        hooks = [graph_opt.train.AsyncEmbeddingHook(session_config(), master)]
        run(args.folder or folder, [] if args.stock else hooks, args.epochs)
    if not args.stock:
        print(graph_opt.report())


if __name__ == "__main__":
    main()
