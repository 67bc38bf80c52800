"""A model as scripts for SparseOperationKit 1 write it, and the same in TensorFlow's own words."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from tests.plain_sessions import plain_session
from tests.release_features import keras_optimizers

SLOTS, MOST_KEYS, WIDTH, ROWS = 3, 4, 5, 24
BATCH = 6
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "plugin_adam": lambda: sok.optimizers.Adam(0.05),
    "adam": lambda: sok.tf.keras.optimizers.Adam(0.05),
    "lazy_adam": lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.05, epsilon=1e-7),
    "sgd": lambda: keras_optimizers().SGD(0.5),
}


class Trained(NamedTuple):
    """What a rank has in the end.

    Attributes:
      keys: Of its rows.
      rows: Of its table.
      dense: The dense weights, the same on all ranks.
    """

    keys: np.ndarray
    rows: np.ndarray
    dense: np.ndarray


def first_rows() -> np.ndarray:
    """What the table starts with."""
    return np.random.default_rng(3).normal(size=(ROWS, WIDTH)).astype(np.float32)


def first_dense() -> np.ndarray:
    """What the dense weights start with."""
    return np.random.default_rng(4).normal(size=(SLOTS * WIDTH, 1)).astype(np.float32)


def batch(step: int, first: int, last: int) -> tf.SparseTensorValue:
    """The bags of some samples of a step's batch; some are empty."""
    random = np.random.default_rng([7, step])
    counts = random.integers(0, MOST_KEYS + 1, (BATCH, SLOTS))
    keys = random.integers(0, ROWS, (BATCH, SLOTS, MOST_KEYS))
    places, values = [], []
    for sample in range(first, last):
        for slot in range(SLOTS):
            for place in range(counts[sample, slot]):
                places.append(((sample - first) * SLOTS + slot, place))
                values.append(keys[sample, slot, place])
    shape = ((last - first) * SLOTS, MOST_KEYS)
    indices = np.array(places, np.int64).reshape(-1, 2)
    return tf.SparseTensorValue(indices, np.array(values, np.int64), shape)


def script(
    transport: Transport,
    optimizer: str,
    cuts: Sequence[int],
    steps: int,
    scale: Optional[float] = None,
    use_hashtable: bool = False,
) -> Trained:
    """A TensorFlow 1 script: this rank trains on the samples cuts[rank] to cuts[rank + 1]."""
    with communicating_through(transport), tf.Graph().as_default(), plain_session() as session:
        init = sok.Init(global_batch_size=BATCH)
        layer = sok.DistributedEmbedding(
            combiner="Mean",
            max_vocabulary_size_per_gpu=ROWS // transport.size,
            embedding_vec_size=WIDTH,
            slot_num=SLOTS,
            max_nnz=MOST_KEYS,
            use_hashtable=use_hashtable,
        )
        dense = tf.Variable(first_dense(), use_resource=True)
        keys = tf.sparse_placeholder(tf.int64, [None, MOST_KEYS])
        loss = _loss(layer(keys, training=True), dense)
        embedding_optimizer = OPTIMIZERS[optimizer]()
        if scale is not None:
            embedding_optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(
                embedding_optimizer, scale
            )
        train = _train_op([layer.embedding_variable, dense], loss, embedding_optimizer, scale)
        assert session.run(init) == b"OK"
        session.run(tf.global_variables_initializer())
        saver = sok.Saver()
        session.run(saver.load_embedding_values(layer.embedding_variable, first_rows()))
        bounds = cuts[transport.rank], cuts[transport.rank + 1]
        for step in range(steps):
            session.run(train, {keys: batch(step, *bounds)})
        found = layer.embedding_variable.rows_of(tf.range(tf.constant(ROWS, tf.int64)), False)
        mine = np.arange(transport.rank, ROWS, transport.size)
        rows, weights = session.run([found, dense])
        return Trained(mine, rows[mine], weights)


def _train_op(variables: List[Any], loss: Any, optimizer: Any, scale: Optional[float]) -> Any:
    if scale is not None:
        loss = optimizer.get_scaled_loss(loss)
    tables, others = sok.split_embedding_variable_from_others(variables)
    gradients = tf.gradients(loss, tables + others)
    if scale is not None:
        gradients = optimizer.get_unscaled_gradients(gradients)
    of_tables, of_others = gradients[: len(tables)], gradients[len(tables) :]
    with sok.OptimizerScope(tables):
        update = optimizer.apply_gradients(zip(of_tables, tables))
    summed = [sok.communication.allreduce(gradient) for gradient in of_others]
    dense_optimizer = tf.train.GradientDescentOptimizer(0.1)
    return tf.group(update, dense_optimizer.apply_gradients(zip(summed, others)))


def stock(steps: int) -> Trained:
    """Trains the whole batch in one process, the table with Keras' Adam."""
    with tf.Graph().as_default(), plain_session() as session:
        table = tf.Variable(first_rows(), use_resource=True)
        dense = tf.Variable(first_dense(), use_resource=True)
        keys = tf.sparse_placeholder(tf.int64, [None, MOST_KEYS])
        pooled = tf.nn.embedding_lookup_sparse(table, keys, None, combiner="mean")
        padded = tf.pad(pooled, [[0, BATCH * SLOTS - tf.shape(pooled)[0]], [0, 0]])
        loss = _loss(tf.reshape(padded, [-1, SLOTS, WIDTH]), dense)
        gradients = tf.gradients(loss, [table, dense])
        train = tf.group(
            keras_optimizers().Adam(0.05).apply_gradients([(gradients[0], table)]),
            tf.train.GradientDescentOptimizer(0.1).apply_gradients([(gradients[1], dense)]),
        )
        session.run(tf.global_variables_initializer())
        for step in range(steps):
            session.run(train, {keys: batch(step, 0, BATCH)})
        rows, weights = session.run([table, dense])
        return Trained(np.arange(ROWS), rows, weights)


def _loss(pooled: tf.Tensor, dense: Any) -> tf.Tensor:
    outputs = tf.matmul(tf.reshape(pooled, [-1, SLOTS * WIDTH]), dense)
    return tf.reduce_sum(tf.square(outputs - 1.0)) / BATCH
