"""Batches of ids in a TensorFlow graph, and what is timed there: the same for all who run in it.

    first ─ + replica ─ ids[number] ─ unstack ─► a SparseTensor for each table

Slicing and unstacking give parts of the ids' memory without a copy. A call looks `replicas` batches
up, one after another, so that the call itself costs little for each; training does one batch a
call, for a table is updated once a step.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.group_lookup_cases import COMBINER, LEARNING_RATE, Size
from tools.bench.group_lookup_server import Run

# (tables, ids of each) -> pooled rows of each
Lookup = Callable[[Sequence[Any], Sequence[tf.SparseTensor]], List[tf.Tensor]]


class Batches:
    """The ids, in the default graph. `load` fills them in a session."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.first = tf.placeholder(tf.int32, [], name="first")
        self._fed = tf.placeholder(tf.int64, [size.batches, size.tables, size.ids])
        self._ids = _variable(tf.zeros([size.batches, size.tables, size.ids], tf.int64), "ids")
        # A variable, too: what is made of a constant, graph optimizers would compute beforehand.
        place = tf.range(size.ids, dtype=tf.int64)
        indices = tf.stack([place // size.ids_per_row, place % size.ids_per_row], axis=1)
        self._indices = _variable(indices, "indices")
        self._load = tf.assign(self._ids, self._fed).op

    def load(self, session: tf.Session, ids: np.ndarray) -> None:
        """Puts ids [batches, tables, ids] where the graph reads them."""
        session.run(self._load, {self._fed: ids})

    def sparse_ids(self, replica: int = 0) -> List[tf.SparseTensor]:
        """The ids of batch `first + replica`, for each table."""
        size = self.size
        ids = tf.unstack(self._ids[self.first + replica], size.tables)
        shape = tf.constant([size.batch, size.ids_per_row], tf.int64)
        return [tf.SparseTensor(self._indices, one, shape) for one in ids]

    def forward(self, lookup: Lookup, tables: Sequence[Any]) -> tf.Operation:
        """An op that looks `replicas` batches up."""
        done = tf.no_op()
        for replica in range(self.size.replicas):
            with tf.control_dependencies([done]):
                ids = self.sparse_ids(replica)
            done = self.read(lookup(tables, ids))
        return done

    def read(self, pooled: Sequence[tf.Tensor]) -> tf.Operation:
        """An op that needs `pooled` and does nothing, which no graph optimizer knows."""
        return tf.raw_ops.Assert(condition=self.first >= 0, data=pooled)

    def train(
        self, lookup: Lookup, tables: Sequence[Any], optimizer: Optional[Any] = None
    ) -> tf.Operation:
        """An op that looks a batch up, differentiates, and updates the tables; Adagrad if None."""
        return self.update(lookup(tables, self.sparse_ids()), tables, optimizer)

    def update(
        self, pooled: Sequence[tf.Tensor], tables: Sequence[Any], optimizer: Optional[Any] = None
    ) -> tf.Operation:
        """An op that differentiates what was looked up, and updates the tables; see `train`."""
        shape = [self.size.batch, self.size.dimension]
        above = [_variable(tf.random.uniform(shape), "gradients") for _ in tables]
        gradients = tf.gradients(pooled, tables, grad_ys=[one.value() for one in above])
        optimizer = optimizer or tf.train.AdagradOptimizer(LEARNING_RATE)
        return optimizer.apply_gradients(zip(gradients, tables))


def plain_lookup(tables: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> List[tf.Tensor]:
    """The lookup that scripts write."""
    return [
        tf.nn.embedding_lookup_sparse(table, one, None, combiner=COMBINER)
        for table, one in zip(tables, ids)
    ]


def tables_of(size: Size, use_resource: bool, prefix: str) -> List[Any]:
    """The tables, ref or resource variables."""
    return [
        tf.get_variable(
            "{}_{}".format(prefix, number),
            [size.rows, size.dimension],
            use_resource=use_resource,
            initializer=tf.random_uniform_initializer(-0.1, 0.1),
        )
        for number in range(size.tables)
    ]


def runs_of(
    session: tf.Session, batches: Batches, ops: Dict[str, tf.Operation], calls_batches: int
) -> Dict[str, Run]:
    """What is timed: compiled callables of the ops."""
    return {
        label: Run(session.make_callable(op, feed_list=[batches.first]), calls_batches)
        for label, op in ops.items()
    }


def _variable(value: tf.Tensor, name: str) -> Any:
    return tf.Variable(value, trainable=False, use_resource=False, name=name)
