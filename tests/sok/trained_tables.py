"""A small model over three tables, trained on ranks, or by TensorFlow on the whole batch."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from tests.plain_sessions import plain_session

SHAPES = ((23, 4), (17, 6), (9, 3))
MODES = (None, "distributed", "localized:{}")
COMBINERS = ("sum", "mean", "sqrtn")
BATCH = 6
MOST_IDS = 4
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "gradient_descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}
Feeds = List[Tuple[Any, Any]]


class Part(NamedTuple):
    """What a rank has of a table after training."""

    keys: np.ndarray
    rows: np.ndarray


def first_tables() -> List[np.ndarray]:
    """The values that the tables start with."""
    random = np.random.default_rng(0)
    return [random.normal(size=shape).astype(np.float32) for shape in SHAPES]


def bags(step: int, first: int, last: int) -> Feeds:
    """Ids and weights of some bags of a step's batch, for each table."""
    feeds = []
    for table, (num_rows, _) in enumerate(SHAPES):
        random = np.random.default_rng([step, table])
        counts = random.integers(0, MOST_IDS, BATCH)
        ids = random.integers(0, num_rows, counts.sum())
        weights = (1 + 0.2 * random.normal(size=len(ids))).astype(np.float32)
        ends = np.concatenate([[0], np.cumsum(counts)])
        places = [(bag - first, i) for bag in range(first, last) for i in range(counts[bag])]
        indices = np.array(places, np.int64).reshape(-1, 2)
        shape = (last - first, MOST_IDS)
        some = slice(ends[first], ends[last])
        feeds.append(
            (
                tf.SparseTensorValue(indices, ids[some], shape),
                tf.SparseTensorValue(indices, weights[some], shape),
            )
        )
    return feeds


def train_part(
    transport: Transport,
    optimizer: str,
    cuts: Sequence[int],
    steps: int,
    open_session: Callable[[], Any] = plain_session,
    changed: Callable[[List[Any]], List[Any]] = list,
) -> List[Part]:
    """Trains on one rank, which gets the bags cuts[rank] to cuts[rank + 1] of each batch.

    Args:
      transport: How it reaches the others.
      optimizer: One of `OPTIMIZERS`.
      cuts: Where the batch is cut.
      steps: How many.
      open_session: Opens the session.
      changed: What gradients are changed to before the optimizer gets them.
    """
    with communicating_through(transport), tf.Graph().as_default(), open_session() as session:
        owner = transport.size - 1
        tables = [
            sok.Variable(values, mode=mode and mode.format(owner), name="table")
            for values, mode in zip(first_tables(), MODES)
        ]
        feeds = _placeholders()
        pooled = sok.lookup_sparse(
            tables, [ids for ids, _ in feeds], [w for _, w in feeds], combiners=COMBINERS
        )
        gradients = changed(tf.gradients(_loss(pooled), tables))
        train = OPTIMIZERS[optimizer]().apply_gradients(zip(gradients, tables))
        session.run(tf.global_variables_initializer())
        bounds = cuts[transport.rank], cuts[transport.rank + 1]
        for step in range(steps):
            session.run(train, _fed(feeds, bags(step, *bounds)))
        rows = session.run(tables)
        return [Part(table.rows.keys(transport.rank), r) for table, r in zip(tables, rows)]


def train_stock(optimizer: str, steps: int) -> List[np.ndarray]:
    """Trains the whole batch with TensorFlow's own lookups."""
    with tf.Graph().as_default(), plain_session() as session:
        tables = [tf.Variable(values, use_resource=True) for values in first_tables()]
        feeds = _placeholders()
        pooled = []
        for table, (ids, weights), combiner in zip(tables, feeds, COMBINERS):
            found = tf.nn.embedding_lookup_sparse(table, ids, weights, combiner=combiner)
            pooled.append(tf.pad(found, [[0, BATCH - tf.shape(found)[0]], [0, 0]]))
        train = OPTIMIZERS[optimizer]().minimize(_loss(pooled))
        session.run(tf.global_variables_initializer())
        for step in range(steps):
            session.run(train, _fed(feeds, bags(step, 0, BATCH)))
        trained: List[np.ndarray] = session.run(tables)
        return trained


def _placeholders() -> Feeds:
    return [
        (
            tf.sparse_placeholder(tf.int64, [None, MOST_IDS]),
            tf.sparse_placeholder(tf.float32, [None, MOST_IDS]),
        )
        for _ in SHAPES
    ]


def _loss(pooled: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(tf.square(one - 0.3)) for one in pooled])


def _fed(feeds: Feeds, values: Feeds) -> Dict[Any, Any]:
    fed: Dict[Any, Any] = {}
    for (ids, weights), (id_values, weight_values) in zip(feeds, values):
        fed[ids], fed[weights] = id_values, weight_values
    return fed
