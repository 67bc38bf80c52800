"""Optimizers other than Adam whose rows move in each step: as in TensorFlow's session."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.dense_optimizers import DENSE, DENSE_MOVING_EVERY_ROW, OF_RESOURCES
from tests.optimizer_models import KERAS
from tests.passes.fused_models import config
from tests.quick_cases import slow_but
from tests.release_features import keras_optimizers

ROWS, WIDTH, BATCH, STEPS = 300, 5, 4, 120
READ_AFTER = (40, 41, STEPS)
# Of the largest value in a row: TensorFlow rounds in each step that a row misses.
TOLERANCE = 2e-5
AVERAGED = "adam, and averages of the tables"
KERAS_MOVING_EVERY_ROW = ("adam", "amsgrad", "rms_prop_plain", "rms_prop_centered_plain")


class Script(NamedTuple):
    """A training script's tensors."""

    ids: Any
    slopes: Any
    train_op: Any
    variables: Dict[str, Any]


def script(optimizer: str, resource: bool) -> Script:
    """Two tables; gradients do not depend on rows, so that rounding is not amplified."""
    ids = tf.placeholder(tf.int64, [BATCH, 3])
    slopes = tf.placeholder(tf.float32, [BATCH, 2 * WIDTH])
    initializer = tf.random_uniform_initializer(-0.5, 0.5, seed=3)
    users, items = tables = [
        tf.get_variable(name, [ROWS, WIDTH], initializer=initializer, use_resource=resource)
        for name in ("users", "items")
    ]
    bags = tf.sparse.from_dense(ids[:, 1:] + 1)
    bags = tf.SparseTensor(bags.indices, bags.values - 1, bags.dense_shape)
    rows = [
        tf.nn.embedding_lookup(users, ids[:, 0]),
        tf.nn.embedding_lookup_sparse(items, bags, None, combiner="mean"),
    ]
    train_op = trained(optimizer, tf.reduce_sum(tf.concat(rows, 1) * slopes), tables)
    variables = {one.op.name: tf.negative(one) for one in tf.global_variables()}
    return Script(ids, slopes, train_op, variables)


def trained(optimizer: str, loss: Any, tables: List[Any]) -> Any:
    if optimizer == AVERAGED:
        step = tf.train.AdamOptimizer(0.01).minimize(loss)
        with tf.control_dependencies([step]):
            return tf.train.ExponentialMovingAverage(0.9).apply(tables)
    if optimizer in DENSE:
        return DENSE[optimizer]().minimize(loss)
    name, options = KERAS[optimizer]
    made = getattr(keras_optimizers(), name)(learning_rate=0.01, **options)
    with tf.control_dependencies(made.get_updates(loss, tables)):
        return tf.no_op()


def read_often(session: Any, made: Script) -> List[Dict[str, np.ndarray]]:
    """All variables after some of the steps."""
    random = np.random.RandomState(5)
    session.run(tf.global_variables_initializer())
    found = []
    for step in range(1, STEPS + 1):
        ids = (ROWS * random.rand(BATCH, 3) ** 3).astype(np.int64)
        slopes = random.uniform(-0.4, 0.6, [BATCH, 2 * WIDTH])
        session.run(made.train_op, {made.ids: ids, made.slopes: slopes})
        if step in READ_AFTER:
            found.append(session.run(made.variables))
    return found


def assert_as_in_stock(optimizer: str, resource: bool) -> None:
    results, deferred = [], []
    for options in (None, config(adam="deferred")):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            made = script(optimizer, resource)
            if options is None:
                with tf.Session() as session:
                    results.append(read_often(session, made))
            else:
                with graph_opt.Session(config=options) as session:
                    results.append(read_often(session, made))
                    report = graph_opt.report()
                    assert report is not None
                    deferred = [lookup.update for lookup in report.fused_lookups]
                    assert not any(reader.in_each_step for reader in report.dense_readers)
    assert deferred == ["deferred", "deferred"]
    for stock, ours in zip(*results):
        assert sorted(stock) == sorted(ours)
        for name, value in stock.items():
            scale = np.max(np.abs(value), axis=-1, keepdims=True) if value.ndim else 1
            worst = np.max(np.abs(ours[name] - value) / np.maximum(scale, 1e-30))
            assert worst <= TOLERANCE, (name, worst)


def dense_cases() -> List[Any]:
    """All optimizers with both kinds of variables; the slow ones differ little from a quick one."""
    quick = [
        *(("dense_momentum", True), ("adam_weight_decay", False)),
        *(("penalized_nesterov", False), ("penalized_keras_momentum", True)),
    ]
    return [
        pytest.param(optimizer, resource, marks=() if is_quick else pytest.mark.slow)
        for optimizer in DENSE_MOVING_EVERY_ROW
        for resource in (False, True)
        if resource or optimizer not in OF_RESOURCES
        for is_quick in [(optimizer, resource) in quick]
    ]


@pytest.mark.parametrize(("optimizer", "resource"), dense_cases())
def test_gradients_as_large_as_the_table(optimizer: str, resource: bool) -> None:
    assert_as_in_stock(optimizer, resource)


@pytest.mark.parametrize(
    "optimizer", slow_but(KERAS_MOVING_EVERY_ROW, "amsgrad", "rms_prop_centered_plain")
)
def test_keras_optimizers(optimizer: str) -> None:
    assert_as_in_stock(optimizer, resource=True)


@pytest.mark.parametrize("resource", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_averages_of_tables_see_all_rows_in_each_step(resource: bool) -> None:
    assert_as_in_stock(AVERAGED, resource)
