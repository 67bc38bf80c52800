"""Dynamic tables, filled with all keys that are looked up, in fused lookups."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.dynamic_tables.passes import (
    INSERT,
    MOST_ROWS_WITH_ADAM,
    labelled_runs,
    pooled,
    runs_in_session,
    trained,
)
from tools.bench.group_lookup_batches import Batches
from tools.bench.group_lookup_cases import Size
from tools.bench.group_lookup_server import Prepared

LABEL = "dynamic"
_NEW_KEYS_OF_A_BATCH = 100  # one key in so many is new
_FILLED_AT_ONCE = 1 << 20


@contextlib.contextmanager
def prepared(size: Size) -> Iterator[Prepared]:
    """All passes. Keys are the ids: hashing them first would change nothing but their names."""
    with tf.Graph().as_default():
        batches = Batches(size)
        names = ["adagrad", "adam"] if size.rows <= MOST_ROWS_WITH_ADAM else ["adagrad"]
        tables = [dynamic_table(name, size) for name in names]
        ops = trained(batches, tables)
        ops[INSERT] = _with_new_keys(batches, tables[0])
        filled = filling(tables)
        with runs_in_session(batches, LABEL, ops, lambda one: filled(one, size.rows)) as session:
            runs = labelled_runs(session, batches, LABEL, ops)
            chosen = graph_opt.instruction_set(size.dimension)
            yield Prepared(lambda ids: batches.load(session, ids), runs, {}, chosen)


def dynamic_table(name: str, size: Size, **options: Any) -> Any:
    """A table as scripts make it, whose rows start as those of a matrix of 4,096."""
    return graph_opt.get_embedding_variable(
        name, size.dimension, initializer=tf.random_uniform_initializer(-0.1, 0.1), **options
    )


def filling(tables: Sequence[Any]) -> Any:
    """A function (session, rows) that gives keys 0, 1, ... rows."""
    keys = tf.placeholder(tf.int64, [None])
    looked_up = tf.group(*(tf.nn.embedding_lookup(table, keys) for table in tables))

    def fill(session: tf.Session, rows: int) -> None:
        for first in range(0, rows, _FILLED_AT_ONCE):
            session.run(looked_up, {keys: np.arange(first, min(rows, first + _FILLED_AT_ONCE))})

    return fill


def _with_new_keys(batches: Batches, table: Any) -> tf.Operation:
    """A lookup of a batch in which one key in a hundred was never seen."""
    seen = tf.get_variable(
        "seen",
        [],
        tf.int64,
        trainable=False,
        initializer=lambda *_, **__: tf.constant(1 << 40, tf.int64),
    )

    def with_new(ids: tf.SparseTensor) -> tf.SparseTensor:
        place = tf.range(batches.size.ids, dtype=tf.int64)
        new = tf.assign_add(seen, batches.size.ids) + place
        is_new = tf.equal(place % _NEW_KEYS_OF_A_BATCH, 0)
        return tf.SparseTensor(ids.indices, tf.where(is_new, new, ids.values), ids.dense_shape)

    def lookup(tables: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> List[tf.Tensor]:
        return pooled(tables, [with_new(one) for one in ids])

    with tf.control_dependencies(None):
        found = lookup([table], batches.sparse_ids())
    return tf.raw_ops.Assert(condition=batches.first >= 0, data=found)
