"""A model whose optimizer moves every row of its tables in each step; needs only TensorFlow.

Its batches touch few rows, some of them seldom, so that rows miss many steps. Processes without
graph_opt import this file, too.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from tests.release_features import keras_optimizers

USERS, ITEMS, WIDTH = 60, 90, 4
BATCH, BAG = 6, 3
RATE = 0.05
# Weights may differ from TensorFlow's by this much of the largest in their row: float32 rounding,
# since TensorFlow rounds in each step that a row misses. Moments hold gradients, which differ by
# more: they are sums of terms that cancel each other in part, and depend on the weights.
TOLERANCE = 1e-5
MOMENTS_TOLERANCE = 1e-4
_MOMENTS = re.compile(r"/(Adam|Adam_1|Momentum|m|v)$")
_SMALLEST = 1e-30


@dataclass(frozen=True)
class ModelOptions:
    """What a script may do in its own way.

    Attributes:
      optimizer: A name in `OPTIMIZERS`.
      use_resource: Whether the tables are resource variables.
      linear: Whether gradients do not depend on the rows that were read, so that prefetched rows,
        which miss updates, train as rows that miss none.
      clip: Whether gradients are clipped by their global norm.
      decay: Whether the learning rate changes in each step.
      parts: Into how many shards the table of items is divided; 1 for no partitioning.
      device: Device or device function for all variables and their ops.
    """

    optimizer: str = "adam"
    use_resource: bool = False
    linear: bool = False
    clip: bool = False
    decay: bool = False
    parts: int = 1
    device: Any = None

    def placed(self, device: Any) -> ModelOptions:
        """The same model with its variables elsewhere."""
        return dataclasses.replace(self, device=device)


@dataclass
class DeferredModel:
    """The parts of the model that a script holds on to.

    Attributes:
      users, items: The tables; `items` may be partitioned.
      optimizer: The optimizer, for its slots.
      rate: The learning rate, a scalar that can be fed.
      user_ids, item_ids: Features [BATCH] and [BATCH, BAG].
      scores: Predictions [BATCH].
      loss, train_op, global_step: As usual.
    """

    users: Any
    items: Any
    optimizer: Any
    rate: Any
    user_ids: Any
    item_ids: Any
    scores: Any
    loss: Any
    train_op: Any
    global_step: Any


OPTIMIZERS: Dict[str, Callable[[Any], Any]] = {
    "adam": lambda rate: tf.train.AdamOptimizer(rate),
    "keras_adam": lambda rate: keras_optimizers().Adam(rate),
    "keras_adamax": lambda rate: keras_optimizers().Adamax(rate),
    "adagrad": lambda rate: tf.train.AdagradOptimizer(rate),
    "momentum": lambda rate: tf.train.MomentumOptimizer(rate, 0.9),
}


def features_of(steps: int) -> Dict[str, np.ndarray]:
    """Features of all steps: the same ones for the same step, whatever their number."""
    random = np.random.RandomState(11)
    seldom = random.rand(steps, BATCH * (1 + BAG) + BATCH * (2 * WIDTH + 1))
    ids = seldom[:, : BATCH * (1 + BAG)] ** 3
    noise = seldom[:, BATCH * (1 + BAG) :]
    return {
        "user": (ids[:, :BATCH] * USERS).astype(np.int64),
        "item": (ids[:, BATCH:] * ITEMS).astype(np.int64).reshape(steps, BATCH, BAG),
        "slope": (noise[:, BATCH:] - 0.4).astype(np.float32).reshape(steps, BATCH, 2 * WIDTH),
        "label": (noise[:, :BATCH] > 0.5).astype(np.float32),
    }


def dataset(steps: int, first: int = 0) -> Any:
    """One element per step, from step `first` on."""
    return tf.data.Dataset.from_tensor_slices(features_of(steps)).skip(first)


def deferred_model(
    options: ModelOptions = ModelOptions(), steps: int = 64, first: int = 0, features: Any = None
) -> DeferredModel:
    """Builds the model in the default graph.

    Args:
      options: What it is like.
      steps: For how many steps there is input.
      first: The step at which the input begins.
      features: Used in place of an iterator of its own.
    """
    if features is None:
        features = tf.data.make_one_shot_iterator(dataset(steps, first)).get_next()
    with tf.device(options.device or ""):
        users = _variable("users", (USERS, WIDTH), options.use_resource)
        items = _variable("items", (ITEMS, WIDTH), options.use_resource, options.parts)
        dense = _variable("dense", (2 * WIDTH, 1), options.use_resource)
        global_step = tf.train.get_or_create_global_step()
        rows = tf.nn.embedding_lookup(users, features["user"])
        pooled = tf.nn.embedding_lookup_sparse(
            items, _bags(features["item"]), None, combiner="mean"
        )
    read = tf.concat([rows, pooled], axis=1)
    logits = tf.squeeze(tf.matmul(read, dense), axis=1)
    scores = tf.sigmoid(logits, name="scores")
    if options.linear:
        loss = tf.reduce_sum(read * features["slope"], name="loss")
    else:
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=logits)
        loss = tf.reduce_sum(losses, name="loss")
    rate = tf.placeholder_with_default(tf.constant(RATE), [], name="rate")
    with tf.device(options.device or ""):
        optimizer, train_op = _trained(options, loss, rate, global_step)
    return DeferredModel(
        users, items, optimizer, rate, features["user"], features["item"], scores, loss, train_op,
        global_step,
    )  # fmt: skip


def _trained(options: ModelOptions, loss: Any, rate: Any, global_step: Any) -> Tuple[Any, Any]:
    if options.decay:
        rate = tf.train.exponential_decay(rate, global_step, 7, 0.8)
    optimizer = OPTIMIZERS[options.optimizer](rate)
    variables = tf.trainable_variables()
    # Without the gate, the update of a reference variable may precede gradients that read it.
    gradients = tf.gradients(loss, variables, gate_gradients=True)
    pairs = [(grad, variable) for grad, variable in zip(gradients, variables) if grad is not None]
    if options.clip:
        clipped, _ = tf.clip_by_global_norm([grad for grad, _ in pairs], 1.5)
        pairs = [(grad, variable) for grad, (_, variable) in zip(clipped, pairs)]
    if isinstance(optimizer, tf.train.Optimizer):
        return optimizer, optimizer.apply_gradients(pairs, global_step=global_step)
    update = optimizer.apply_gradients(pairs)
    with tf.control_dependencies([update]):
        return optimizer, tf.assign_add(global_step, 1).op


def _variable(name: str, shape: Tuple[int, int], use_resource: bool, parts: int = 1) -> Any:
    values = np.random.RandomState(len(name)).uniform(-1, 1, shape).astype(np.float32)

    def initializer(shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> Any:
        first = partition_info.var_offset[0] if partition_info is not None else 0
        return tf.constant(values[first : first + shape[0]], dtype)

    partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
    return tf.get_variable(
        name, shape, tf.float32, initializer, partitioner=partitioner, use_resource=use_resource
    )


def _bags(ids: Any) -> Any:
    places = np.indices((BATCH, BAG)).reshape(2, -1).T.astype(np.int64)
    return tf.SparseTensor(places, tf.reshape(ids, [-1]), [BATCH, BAG])


def compared_variables() -> List[Any]:
    """All float variables of the default graph: weights, moments, powers of beta."""
    return [each for each in tf.global_variables() if each.dtype.base_dtype == tf.float32]


def assert_same(found: Any, expected: Any, what: str = "") -> None:
    """Asserts that nested values are equal within rounding of the largest in each row."""
    if isinstance(expected, dict):
        assert sorted(found) == sorted(expected), what
        for key, value in expected.items():
            assert_same(found[key], value, "{}/{}".format(what, key))
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), what
        for place, value in enumerate(expected):
            assert_same(found[place], value, "{}/{}".format(what, place))
    else:
        assert_same_array(found, expected, what)


def assert_same_array(found: Any, expected: Any, what: str) -> None:
    """Asserts the same for one array; `what` names it in the message."""
    expected = np.asarray(expected)
    assert np.shape(found) == expected.shape, what
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, what)
        return
    rows = -1 if expected.ndim and expected.shape[-1] > 1 else None
    largest = np.abs(expected).max(axis=rows, keepdims=True)
    tolerance = MOMENTS_TOLERANCE if _MOMENTS.search(what) else TOLERANCE
    error = np.abs(found - expected) / np.maximum(largest, _SMALLEST)
    worst = float(error.max()) if error.size else 0.0
    assert worst <= tolerance, "{}: differs by {:.2g} of its row".format(what, worst)
