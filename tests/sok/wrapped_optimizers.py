"""One table for each optimizer that `sok.OptimizerWrapper` knows, all trained in one graph."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import tensorflow

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from tests.plain_sessions import plain_session
from tests.release_features import keras_optimizers

ROWS = 19
WIDTH = 3
BATCH = 6
MOST_IDS = 3
_KERAS = tensorflow.keras.optimizers
_LEGACY = keras_optimizers()
WRAPPED: Dict[str, Callable[[], Any]] = {
    "train.gradient_descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "train.momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "train.nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "train.adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "train.adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "train.adam": lambda: tf.train.AdamOptimizer(0.01),
    "train.ftrl": lambda: tf.train.FtrlOptimizer(
        0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.02
    ),
    "train.rms_prop": lambda: tf.train.RMSPropOptimizer(0.01, momentum=0.5),
    "train.centered": lambda: tf.train.RMSPropOptimizer(0.01, centered=True),
    "train.proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(
        0.1, l1_regularization_strength=0.01
    ),
    "train.proximal": lambda: tf.train.ProximalGradientDescentOptimizer(
        0.1, l2_regularization_strength=0.01
    ),
    "legacy.sgd": lambda: _LEGACY.SGD(0.1),
    "legacy.momentum": lambda: _LEGACY.SGD(0.1, momentum=0.9, decay=0.01),
    "legacy.nesterov": lambda: _LEGACY.SGD(0.1, momentum=0.9, nesterov=True),
    "legacy.adagrad": lambda: _LEGACY.Adagrad(0.1),
    "legacy.adadelta": lambda: _LEGACY.Adadelta(0.1),
    "legacy.adam": lambda: _LEGACY.Adam(0.01),
    "legacy.amsgrad": lambda: _LEGACY.Adam(0.01, amsgrad=True),
    "legacy.adamax": lambda: _LEGACY.Adamax(0.01),
    "legacy.nadam": lambda: _LEGACY.Nadam(0.01),
    "legacy.ftrl": lambda: _LEGACY.Ftrl(
        0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.02
    ),
    "legacy.rms_prop": lambda: _LEGACY.RMSprop(0.01),
    "keras.sgd": lambda: _KERAS.SGD(0.1),
    "keras.momentum": lambda: _KERAS.SGD(0.1, momentum=0.9),
    "keras.adagrad": lambda: _KERAS.Adagrad(0.1),
    "keras.adadelta": lambda: _KERAS.Adadelta(0.1),
    "keras.adam": lambda: _KERAS.Adam(_KERAS.schedules.ExponentialDecay(0.01, 10, 0.9)),
    "keras.adam_w": lambda: _KERAS.AdamW(0.01),
    "keras.adamax": lambda: _KERAS.Adamax(0.01),
    "keras.ftrl": lambda: _KERAS.Ftrl(0.1),
    "keras.rms_prop": lambda: _KERAS.RMSprop(0.01),
    "keras.lion": lambda: _KERAS.Lion(0.01),
}


def first_values(name: str) -> np.ndarray:
    """What the table of an optimizer starts with."""
    random = np.random.default_rng(sorted(WRAPPED).index(name))
    return random.normal(size=(ROWS, WIDTH)).astype(np.float32)


def bags(step: int, first: int, last: int) -> tf.SparseTensorValue:
    """Ids of some bags of a step's batch."""
    random = np.random.default_rng(step)
    counts = random.integers(0, MOST_IDS, BATCH)
    ids = [random.integers(0, ROWS, count) for count in counts]
    places = [(bag - first, i) for bag in range(first, last) for i in range(counts[bag])]
    return tf.SparseTensorValue(
        np.array(places, np.int64).reshape(-1, 2),
        np.concatenate(ids[first:last] + [np.zeros(0, np.int64)]),
        (last - first, MOST_IDS),
    )


def loss_of(pooled: Sequence[tf.Tensor]) -> tf.Tensor:
    """Squared distances, which each table has for itself."""
    return tf.add_n([tf.reduce_sum(tf.square(one - 0.3)) for one in pooled])


def train_ranks_part(
    transport: Transport, cuts: Sequence[int], steps: int, names: Sequence[str]
) -> Dict[str, Dict[int, np.ndarray]]:
    """The rows of this rank by optimizer and key, trained in a session with wrapped optimizers."""
    with communicating_through(transport), tf.Graph().as_default(), plain_session() as session:
        tables = {}
        for place, name in enumerate(names):
            mode = "localized:{}".format(transport.size - 1) if place % 4 == 3 else None
            tables[name] = sok.Variable(first_values(name), mode=mode, name="table")
        ids = tf.sparse_placeholder(tf.int64, [None, MOST_IDS])
        every = list(tables.values())
        pooled = sok.lookup_sparse(every, [ids] * len(every), combiners=["sum"] * len(every))
        gradients = tf.gradients(loss_of(pooled), every)
        train = [
            sok.OptimizerWrapper(WRAPPED[name]()).apply_gradients([(gradient, table)])
            for name, gradient, table in zip(names, gradients, every)
        ]
        _initialize(session)
        for step in range(steps):
            fed = bags(step, cuts[transport.rank], cuts[transport.rank + 1])
            session.run(train, {ids: fed})
        exported = session.run({name: sok.export(table) for name, table in tables.items()})
        return {name: dict(zip(keys, rows)) for name, (keys, rows) in exported.items()}


def train_stock(steps: int, names: Sequence[str]) -> Dict[str, np.ndarray]:
    """The same tables trained by TensorFlow, with whole batches."""
    with tf.Graph().as_default(), plain_session() as session:
        tables = [tf.Variable(first_values(name), use_resource=True) for name in names]
        ids = tf.sparse_placeholder(tf.int64, [None, MOST_IDS])
        pooled: List[tf.Tensor] = []
        for table in tables:
            found = tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum")
            pooled.append(tf.pad(found, [[0, BATCH - tf.shape(found)[0]], [0, 0]]))
        gradients = tf.gradients(loss_of(pooled), tables)
        train = [
            _apply_stock(WRAPPED[name](), gradient, table)
            for name, gradient, table in zip(names, gradients, tables)
        ]
        _initialize(session)
        for step in range(steps):
            session.run(train, {ids: bags(step, 0, BATCH)})
        return dict(zip(names, session.run(tables)))


def _initialize(session: tf.Session) -> None:
    # Keras' learning rate starts with its schedule's value for the iterations there are.
    variables = tf.global_variables()
    iterations = [one for one in variables if one.name.startswith("iteration")]
    session.run(tf.variables_initializer(iterations))
    others = [one for one in variables if all(one is not other for other in iterations)]
    session.run(tf.variables_initializer(others))


def _apply_stock(optimizer: Any, gradient: tf.IndexedSlices, table: Any) -> Any:
    if not hasattr(optimizer, "build"):
        return optimizer.apply_gradients([(gradient, table)])
    optimizer.build([table])

    def update(slices: tf.IndexedSlices) -> tf.Tensor:
        return tf.identity(optimizer.apply_gradients([(slices, table)]))

    return tf.function(update, autograph=False)(gradient)
