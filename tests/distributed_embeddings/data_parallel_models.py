"""A small model with a sharded table and a dense layer: on ranks, and in one process."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np
import tensorflow
from tensorflow.python.eager import context

from graph_opt import distributed_embeddings as de
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import communicating_through
from tests.plain_sessions import plain_session
from tests.release_features import keras_optimizers

ROWS, WIDTH, BATCH, STEPS = 17, 3, 8, 20
KERAS = tensorflow.keras.optimizers
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "keras_adam": lambda: KERAS.Adam(0.05),
    "legacy_adagrad": lambda: keras_optimizers().Adagrad(0.1),
}


class Trained(NamedTuple):
    """What a rank has in the end.

    Attributes:
      keys: Of its rows.
      rows: Its rows of the table.
      dense: The dense layer.
    """

    keys: np.ndarray
    rows: np.ndarray
    dense: np.ndarray


def first_rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)


def first_dense() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(WIDTH, 2)).astype(np.float32)


def ids_of(step: int, rank: int, num_ranks: int) -> np.ndarray:
    """A rank's part of a step's batch."""
    ids = np.random.default_rng([2, step]).integers(0, ROWS, (BATCH, 2))
    share = BATCH // num_ranks
    return ids[rank * share : (rank + 1) * share]


def loss_of(pooled: Any, dense: Any, shared: Any) -> Any:
    """Also of a variable whose gradient is IndexedSlices, which all ranks have."""
    rows = tf.gather(shared, [0, 0, 1])
    return tf.reduce_mean(tf.square(tf.matmul(pooled, dense) - 0.3)) + tf.reduce_sum(
        tf.square(rows)
    )


class _Model:
    def __init__(self, table: Any, pool: Callable[[Any, Any], Any]) -> None:
        self.table = table
        self._pool = pool
        self.dense = tf.Variable(first_dense(), use_resource=True, name="dense")
        self.shared = tf.Variable(first_dense(), use_resource=True, name="shared")
        self.variables = [self.table, self.dense, self.shared]

    def loss(self, ids: Any) -> Any:
        return loss_of(self._pool(self.table, ids), self.dense, self.shared)


def _model(num_ranks: int) -> _Model:
    if num_ranks == 1:
        table = tf.Variable(first_rows(), use_resource=True, name="table")
        return _Model(
            table, lambda table, ids: tf.reduce_sum(tf.nn.embedding_lookup(table, ids), axis=1)
        )
    table = sok.Variable(first_rows(), name="table")
    return _Model(table, lambda table, ids: sok.lookup_sparse(table, ids, combiners="sum"))


def train(transport: Transport, how: str, optimizer: str) -> Trained:
    """Trains on a rank, by `session`, `tape`, `function` or `minimize`."""
    with communicating_through(transport):
        if how == "session":
            return _in_session(transport, optimizer)
        with context.eager_mode():
            return _eagerly(transport, how, optimizer)


def _in_session(transport: Transport, optimizer: str) -> Trained:
    with tf.Graph().as_default(), plain_session() as session:
        model = _model(transport.size)
        ids = tf.placeholder(tf.int64, [None, 2])
        wrapped = de.DistributedOptimizer(OPTIMIZERS[optimizer](), op="average")
        step = wrapped.minimize(model.loss(ids))
        session.run(tf.global_variables_initializer())
        for number in range(STEPS):
            fed = ids_of(number, transport.rank, transport.size)
            session.run(step, {ids: fed})
        rows, dense = session.run([model.table, model.dense])
        return Trained(_keys(model.table), rows, dense)


def _eagerly(transport: Transport, how: str, optimizer: str) -> Trained:
    model = _model(transport.size)
    is_minimize = how == "minimize"
    chosen = OPTIMIZERS[optimizer]()
    wrapped = de.DistributedOptimizer(chosen) if is_minimize else chosen
    if hasattr(wrapped, "build"):
        wrapped.build(model.variables)

    def step(ids: Any) -> None:
        if is_minimize:
            wrapped.minimize(lambda: model.loss(ids), model.variables)
            return
        with tf.GradientTape() as tape:
            loss = model.loss(ids)
        gradients = de.DistributedGradientTape(tape).gradient(loss, model.variables)
        wrapped.apply_gradients(zip(gradients, model.variables))

    run = tf.function(step) if how == "function" else step
    for number in range(STEPS):
        run(tf.constant(ids_of(number, transport.rank, transport.size)))
    return Trained(_keys(model.table), model.table.numpy(), model.dense.numpy())


def _keys(table: Any) -> np.ndarray:
    rows = getattr(table, "rows", None)
    return np.arange(ROWS) if rows is None else rows.keys(table.transport.rank)


def assert_as_one_process(ranks: List[Trained], whole: Trained) -> None:
    for trained in ranks:
        np.testing.assert_allclose(trained.rows, whole.rows[trained.keys], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(trained.dense, whole.dense, rtol=1e-4, atol=1e-5)
