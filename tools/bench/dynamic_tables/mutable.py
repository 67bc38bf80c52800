"""TensorFlow's own hash table with rows as values: lookups alone, since nothing trains it."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.group_lookup_batches import Batches, runs_of
from tools.bench.group_lookup_cases import FORWARD, Size
from tools.bench.group_lookup_server import Prepared

LABEL = "mutable"
_FILLED_AT_ONCE = 1 << 20


@contextlib.contextmanager
def prepared(size: Size) -> Iterator[Prepared]:
    """A lookup of each id of a batch, and the mean of each bag."""
    with tf.Graph().as_default():
        batches = Batches(size)
        default = np.zeros(size.dimension, np.float32)
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, default)
        keys = tf.placeholder(tf.int64, [None])
        values = tf.placeholder(tf.float32, [None, size.dimension])
        insert = table.insert(keys, values)
        op = batches.forward(_pooled, [table])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for first in range(0, size.rows, _FILLED_AT_ONCE):
                some = np.arange(first, min(size.rows, first + _FILLED_AT_ONCE))
                rows = np.full([len(some), size.dimension], 0.1, np.float32)
                session.run(insert, {keys: some, values: rows})
            runs = runs_of(session, batches, {"{} {}".format(LABEL, FORWARD): op}, size.replicas)
            yield Prepared(lambda ids: batches.load(session, ids), runs, {}, "")


def _pooled(tables: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> List[tf.Tensor]:
    bags = [tf.cast(one.indices[:, 0], tf.int32) for one in ids]
    return [
        tf.math.segment_mean(table.lookup(one.values), bag)
        for table, one, bag in zip(tables, ids, bags)
    ]
