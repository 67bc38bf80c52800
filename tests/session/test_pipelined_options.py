"""Weights that a stage pulls and pushes, with what else sessions do: numbers are TensorFlow's."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Dict, Iterator, List, NamedTuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.session.session import Session
from tests.passes.pipeline.delayed_training import pipelining
from tests.session.parameter_servers import free_addresses, parameter_servers

pytestmark = pytest.mark.slow

ROWS, BATCH, BATCHES = 20, 4, 8
BAD_BATCH = 3
X = np.random.RandomState(0).rand(BATCHES * BATCH, 3).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "gradient descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
}


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker whose parameter server, in another process, has our ops."""
    server, worker = free_addresses(2)
    cluster = {"ps": [server], "worker": [worker]}
    with parameter_servers(cluster, has_ops=[True]):
        yield tf.train.Server(tf.train.ClusterSpec(cluster), job_name="worker").target


def on_server() -> Any:
    return tf.device(tf.train.replica_device_setter(1, worker_device="/job:worker/task:0"))


class Model(NamedTuple):
    """A table and two dense layers."""

    loss: Any
    train: Any


def model(data: Any, optimizer: str) -> Model:
    x, y = tf.data.make_one_shot_iterator(data).get_next()
    table = tf.get_variable("table", [ROWS, 4], initializer=random_values(5), use_resource=False)
    rows = tf.nn.embedding_lookup(table, tf.cast(x[:, 0] * ROWS, tf.int64))
    hidden = tf.layers.dense(x, 4, tf.nn.tanh, kernel_initializer=random_values(3)) + rows
    loss = tf.losses.mean_squared_error(
        y, tf.layers.dense(hidden, 1, kernel_initializer=random_values(4))
    )
    step = tf.train.get_or_create_global_step()
    return Model(loss, OPTIMIZERS[optimizer]().minimize(loss, step))


def random_values(seed: int) -> Any:
    return tf.random_uniform_initializer(-1, 1, seed=seed)


def batches(has_bad_one: bool = False) -> Any:
    numbers = tf.data.Dataset.range(BATCHES)
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH, drop_remainder=True)

    def checked(number: Any, batch: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_none_equal(number, np.int64(BAD_BATCH))]):
            return tuple(map(tf.identity, batch))

    return tf.data.Dataset.zip((numbers, data)).map(checked) if has_bad_one else data


class Ran(NamedTuple):
    """Losses and variables of a training, and what failed."""

    losses: List[float]
    values: Dict[str, np.ndarray]
    errors: List[str]


def run(
    target: str,
    optimizer: str,
    config: Any,
    steps: int = BATCHES,
    has_bad_batch: bool = False,
    container: str = "",
) -> Ran:
    """Trains, by TensorFlow alone without a config.

    Not to the end of input: Adam's slots may decay in a step without a batch, in TensorFlow, too.
    """
    losses, errors = [], []
    with tf.Graph().as_default(), on_server(), tf.container(container):
        tf.set_random_seed(1)
        made = model(batches(has_bad_batch), optimizer)
        variables = {each.op.name: each for each in tf.global_variables()}
        initialize = tf.global_variables_initializer()
        with opened(target, config) as session:
            session.run(initialize)
            for _ in range(steps):
                try:
                    losses.append(float(session.run([made.loss, made.train])[0]))
                except tf.errors.InvalidArgumentError as error:
                    errors.append(type(error).__name__)
            return Ran(losses, session.run(variables), errors)


def opened(target: str, config: Any) -> Any:
    if config is not None:
        return Session(target, config=config)
    plain = tf.ConfigProto()
    plain.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(target, config=plain)


def check_same(found: Ran, expected: Ran) -> None:
    assert found.losses == expected.losses and found.errors == expected.errors
    assert set(found.values) == set(expected.values)
    for name, value in expected.values.items():
        np.testing.assert_array_equal(found.values[name], value, err_msg=name)


@pytest.mark.parametrize("rule", ["", "batches"])
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_micro_batches_are_trained_alike(target: str, optimizer: str, rule: str) -> None:
    ran = []
    for pipelined in (False, True):
        config = pipelining(staleness=0)
        options = config.graph_options.optimizer_options
        options.micro_batch_num = 2
        if rule:
            options.micro_batch_rule = rule
        if not pipelined:
            options.pipeline_dense = False
            options.ClearField("dense_staleness")
        ran.append(run(target, optimizer, config, BATCHES // 2 if rule else BATCHES))
    assert "weights miss no update" in str(graph_opt.report())
    check_same(ran[1], ran[0])


def test_a_bad_record_costs_its_batch_alone(target: str) -> None:
    optimizer = "gradient descent"
    expected = run(target, optimizer, None, has_bad_batch=True)
    assert expected.errors == ["InvalidArgumentError"]
    check_same(run(target, optimizer, pipelining(staleness=0), has_bad_batch=True), expected)
    stale = run(target, optimizer, pipelining(), has_bad_batch=True)
    assert stale.errors == expected.errors
    assert stale.values["global_step"] == BATCHES - 1


@pytest.mark.parametrize("staleness", [0, 1])
def test_rows_of_adam_are_caught_up(target: str, staleness: int) -> None:
    expected = run(target, "adam", None if staleness == 0 else pipelining(staleness))
    config = pipelining(staleness)
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    options.group_embedding_options.ClearField("lookups")
    found = run(target, "adam", config)
    report = graph_opt.report()
    assert report is not None and [table.update for table in report.fused] == ["deferred"]
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-5)
    for name, value in expected.values.items():
        np.testing.assert_allclose(found.values[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("staleness", [0, 1])
def test_sessions_on_one_server_keep_to_themselves(target: str, staleness: int) -> None:
    alone = run(target, "adam", pipelining(staleness))
    ran: Dict[str, Ran] = {}

    def train(name: str) -> None:
        ran[name] = run(target, "adam", pipelining(staleness), container=name)

    threads = [threading.Thread(target=train, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_same(ran["first"], alone)
    check_same(ran["second"], alone)


@pytest.mark.parametrize("staleness", [0, 1])
def test_keras_trains_as_by_tensorflow(target: str, staleness: int) -> None:
    found = []
    for config in (None, pipelining(staleness)):
        tf.Session.reset(target)
        with tf.Graph().as_default() as graph, on_server(), opened(target, config):
            tf.set_random_seed(1)
            layers = [tf.keras.layers.Dense(4, input_shape=(3,)), tf.keras.layers.Dense(1)]
            network = tf.keras.Sequential(layers)
            network.compile(tf.train.GradientDescentOptimizer(0.1), "mse")
            network.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
            found.append([*network.get_weights(), network.evaluate(X, Y, verbose=0)])
            if config is not None:
                assert "pipeline_dense: 5 updates" in str(graph_opt.report(graph))
    if staleness == 0:
        np.testing.assert_equal(found[1], found[0])
    assert np.isfinite(found[1][-1])


@pytest.mark.parametrize("staleness", [0, 1])
def test_a_server_that_hangs_ends_training_after_stall_seconds(staleness: int) -> None:
    server, worker = free_addresses(2)
    cluster = {"ps": [server], "worker": [worker]}
    config = pipelining(staleness)
    config.graph_options.optimizer_options.stall_seconds = 2
    with parameter_servers(cluster, has_ops=[False]) as (hung,):
        target = tf.train.Server(tf.train.ClusterSpec(cluster), job_name="worker").target
        with tf.Graph().as_default(), on_server(), contextlib.ExitStack() as stack:
            made = model(batches().repeat(), "gradient descent")
            with pytest.raises(tf.errors.DeadlineExceededError, match="stall_seconds is 2"):
                with graph_opt.train.MonitoredTrainingSession(target, config=config) as session:
                    for _ in range(BATCHES):
                        session.run(made.train)
                    stack.enter_context(hung.stopped())
                    while True:
                        session.run(made.train)
