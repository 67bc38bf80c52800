"""A model with tables that every rank has whole, whose gradients go through Horovod."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import numpy as np

from graph_opt.compat import tf

ROWS = 50
WIDTH = 4
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "gradient_descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
}
Reduced = Callable[[List[Any]], Sequence[Any]]
Minimize = Callable[[Any, tf.Tensor, Sequence[Any]], tf.Operation]


class Model:
    """Four lookups in three tables, in the default graph; all is known by name.

    Args:
      optimizer: One of `OPTIMIZERS`.
      minimize: `(optimizer, loss, tables) -> train op`.
      use_resource: Whether the tables are resource variables.
    """

    def __init__(self, optimizer: str, minimize: Minimize, use_resource: bool) -> None:
        random = np.random.default_rng(3)
        tables = [
            tf.get_variable(
                name,
                initializer=tf.constant(random.normal(size=(ROWS, WIDTH)).astype(np.float32)),
                use_resource=use_resource,
            )
            for name in ("items", "users", "history")
        ]
        ids = tf.placeholder(tf.int64, [None], name="ids")
        bags = tf.SparseTensor(
            tf.placeholder(tf.int64, [None, 2], name="places"),
            tf.placeholder(tf.int64, [None], name="of_bags"),
            tf.placeholder(tf.int64, [2], name="shape"),
        )
        items, users, history = tables
        rows = [
            tf.nn.embedding_lookup(items, ids),
            tf.nn.embedding_lookup_sparse(users, bags, None, combiner="mean"),
            tf.nn.embedding_lookup(history, ids),
            tf.nn.embedding_lookup(history, ids * 7 % ROWS),
        ]
        loss = tf.add_n([tf.reduce_sum(tf.square(one - 0.3)) for one in rows])
        self._train = minimize(OPTIMIZERS[optimizer](), loss, tables).name
        self._tables = [tf.identity(table, name="value").name for table in tables]
        self._initializer = tf.global_variables_initializer().name

    def trained(self, session: Any, steps: int, rank: int = 0) -> List[np.ndarray]:
        """The tables after some steps."""
        self.train(session, steps, rank)
        tables: List[np.ndarray] = session.run(self._tables)
        return tables

    def train(self, session: Any, steps: int, rank: int = 0) -> None:
        """Some steps, of batches that are larger on higher ranks."""
        session.run(self._initializer)
        for step in range(steps):
            random = np.random.default_rng([step, rank])
            feed = {
                "ids:0": random.integers(0, ROWS // 4, 30 + rank),
                "places:0": np.stack([np.arange(6) // 2, np.arange(6) % 2], axis=1),
                "of_bags:0": random.integers(0, ROWS, 6),
                "shape:0": (3, 3),
            }
            session.run(self._train, feed)


def applying(reduced: Reduced) -> Minimize:
    """Applies what `reduced` makes of the gradients."""

    def minimize(optimizer: Any, loss: tf.Tensor, tables: Sequence[Any]) -> tf.Operation:
        gradients = [gradient for gradient, _ in optimizer.compute_gradients(loss, tables)]
        return optimizer.apply_gradients(zip(reduced(gradients), tables))

    return minimize


def require_equal(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> None:
    """Requires tables that differ by rounding alone."""
    for one, other in zip(some, others):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6)
