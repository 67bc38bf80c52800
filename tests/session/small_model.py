"""A model of two lookups and a dense layer over numbered batches, and configs to train it with."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Dict, List

import numpy as np

import graph_opt
from graph_opt.compat import tf
from graph_opt.session.graph_records import report_of
from tests.plain_sessions import plain_session

ROWS = 70
BATCH = 8  # the last batch has 6 rows
BATCHES = 9
USERS, ITEMS, WIDTH = 11, 23, 3


@dataclass
class SmallModel:
    """Tensors of the model. Row `i` of the input has `row` = i, which identifies batches.

    Attributes:
      iterator: Over the batches.
      features: row, user, item [B] int64, label [B] float32.
      user_rows: Looked-up rows [B, WIDTH].
      item_rows: Pooled rows [B, WIDTH].
      loss, train_op, global_step: As usual.
    """

    iterator: Any
    features: Dict[str, Any]
    user_rows: Any
    item_rows: Any
    loss: Any
    train_op: Any
    global_step: Any


def input_data() -> Dict[str, np.ndarray]:
    """The features of all rows."""
    row = np.arange(ROWS)
    return {
        "row": row.astype(np.int64),
        "user": (row * 7 % USERS).astype(np.int64),
        "item": (row * 5 % ITEMS).astype(np.int64),
        "label": (row % 3 == 0).astype(np.float32),
    }


def dataset(epochs: int = 1) -> Any:
    """Batches of the input data; the last one is smaller."""
    return tf.data.Dataset.from_tensor_slices(input_data()).batch(BATCH).repeat(epochs)


def small_model(
    learning_rate: float = 0.0, one_shot: bool = False, epochs: int = 1, **staging: Any
) -> SmallModel:
    """Builds the model in the default graph.

    Args:
      learning_rate: With 0, the losses of a run depend only on the order of the batches.
      one_shot: Whether the iterator needs no initializer.
      epochs: How often the data is repeated.
      staging: Arguments of `graph_opt.staged` for the features; without any there is no stage.
    """
    make = tf.data.make_one_shot_iterator if one_shot else tf.data.make_initializable_iterator
    iterator = make(dataset(epochs))
    features = iterator.get_next()
    if staging:
        features = graph_opt.staged(features, **staging)
    return model_on(features, learning_rate, iterator)


def model_on(features: Dict[str, Any], learning_rate: float, iterator: Any = None) -> SmallModel:
    """The model on given features."""
    random = np.random.RandomState(7)
    users = _variable("users", random.rand(USERS, WIDTH))
    items = _variable("items", random.rand(ITEMS, WIDTH))
    dense = _variable("dense", random.rand(2 * WIDTH, 1))
    user_rows = tf.nn.embedding_lookup(users, features["user"], name="user_rows")
    item_rows = tf.nn.embedding_lookup_sparse(
        items, _one_each(features["item"]), None, combiner="sum", name="item_rows"
    )
    logits = tf.squeeze(tf.matmul(tf.concat([user_rows, item_rows], 1), dense), 1)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=logits)
    # Every row has its own weight: batches in another order give other losses.
    loss = tf.reduce_mean(losses * tf.cast(features["row"] + 1, tf.float32), name="loss")
    global_step = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdagradOptimizer(learning_rate)
    train_op = optimizer.minimize(loss, global_step=global_step)
    return SmallModel(iterator, features, user_rows, item_rows, loss, train_op, global_step)


def _variable(name: str, value: np.ndarray) -> Any:
    return tf.get_variable(name, initializer=value.astype(np.float32), use_resource=False)


def _one_each(ids: Any) -> Any:
    count = tf.shape(ids, out_type=tf.int64)[0]
    positions = tf.stack([tf.range(count), tf.zeros_like(tf.range(count))], axis=1)
    return tf.SparseTensor(positions, ids, tf.stack([count, tf.constant(1, tf.int64)]))


def async_config(threads: int = 1, capacity: int = 2, infer_io_stage: bool = True) -> Any:
    """A config that asks for async embedding."""
    config = graph_opt.ConfigProto(intra_op_parallelism_threads=2, inter_op_parallelism_threads=2)
    optimizer_options = config.graph_options.optimizer_options
    optimizer_options.do_async_embedding = True
    optimizer_options.async_embedding_options.threads_num = threads
    optimizer_options.async_embedding_options.capacity = capacity
    optimizer_options.async_embedding_options.infer_io_stage = infer_io_stage
    return config


def initialize(session: Any, model: SmallModel) -> None:
    """Initializes all variables and the iterator."""
    session.run(tf.global_variables_initializer())
    session.run(model.iterator.initializer)


def scaffold_of(model: SmallModel) -> Any:
    """A scaffold that initialises the model's iterator."""
    default = tf.train.Scaffold.default_local_init_op()
    return tf.train.Scaffold(local_init_op=tf.group(default, model.iterator.initializer))


def row_batches(epochs: int = 1) -> List[List[int]]:
    """The `row` feature of each batch, in order."""
    rows = [list(range(first, min(first + BATCH, ROWS))) for first in range(0, ROWS, BATCH)]
    return rows * epochs


def run_to_end(session: Any, fetches: Any) -> List[Any]:
    """Results of running the fetches until the input ends."""
    results = []
    try:
        while True:
            results.append(session.run(fetches))
    except tf.errors.OutOfRangeError:
        return results


def report_on(graph: Any) -> graph_opt.Report:
    """The report of an optimized graph."""
    report = report_of(graph)
    assert report is not None
    return report


@functools.lru_cache(maxsize=None)
def stock_losses(learning_rate: float = 0.0) -> np.ndarray:
    """The loss of each step of a stock session, in a separate graph: an array to read only."""
    with tf.Graph().as_default():
        model = small_model(learning_rate)
        with plain_session() as session:
            session.run([tf.global_variables_initializer(), model.iterator.initializer])
            steps = run_to_end(session, [model.loss, model.train_op])
    losses = np.array([loss for loss, _ in steps])
    losses.setflags(write=False)
    return losses
