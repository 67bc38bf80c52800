"""TensorFlow Recommenders Addons, for `group_lookup`: its tables are hash tables of all the ids."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import Any, Iterator, List, Sequence

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow_recommenders_addons as tfra

from tools.bench.group_lookup_batches import Batches, runs_of
from tools.bench.group_lookup_cases import COMBINER, FORWARD, LEARNING_RATE, TRAIN, Size
from tools.bench.group_lookup_server import Prepared
from tools.bench.instruction_sets import of_library

_DEVICE = "/CPU:0"


@contextlib.contextmanager
def prepared(size: Size) -> Iterator[Prepared]:
    """Its `embedding_lookup_sparse`, and its optimizer around TensorFlow's Adagrad."""
    with tf.Graph().as_default():
        batches = Batches(size)
        tables = [_table(size, number) for number in range(size.tables)]
        forward = batches.forward(_lookup, tables)
        train = _train(batches, tables)
        keys = tf.placeholder(tf.int64, [size.rows])
        values = tf.placeholder(tf.float32, [size.rows, size.dimension])
        fill = tf.group(*(table.upsert(keys, values) for table in tables))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            rows = np.random.RandomState(7).uniform(-0.1, 0.1, (size.rows, size.dimension))
            session.run(fill, {keys: np.arange(size.rows), values: rows})
            runs = runs_of(session, batches, {"tfra " + FORWARD: forward}, size.replicas)
            runs.update(runs_of(session, batches, {"tfra " + TRAIN: train}, 1))
            yield Prepared(lambda ids: batches.load(session, ids), runs, {}, _compiled_for())


@functools.lru_cache(maxsize=None)
def _compiled_for() -> str:
    core = Path(tfra.__file__).parent / "dynamic_embedding" / "core"
    return of_library(core / "_cuckoo_hashtable_ops.so")


def _table(size: Size, number: int) -> Any:
    return tfra.dynamic_embedding.get_variable(
        "table_{}".format(number),
        key_dtype=tf.int64,
        value_dtype=tf.float32,
        dim=size.dimension,
        devices=[_DEVICE],
        initializer=0.0,
        init_size=size.rows,
    )


def _lookup(tables: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> List[tf.Tensor]:
    return [_pooled(table, one)[0] for table, one in zip(tables, ids)]


def _pooled(table: Any, ids: tf.SparseTensor) -> Any:
    return tfra.dynamic_embedding.embedding_lookup_sparse(
        table, ids, None, combiner=COMBINER, return_trainable=True
    )


def _train(batches: Batches, tables: Sequence[Any]) -> tf.Operation:
    size = batches.size
    found = [_pooled(table, one) for table, one in zip(tables, batches.sparse_ids())]
    above = [
        tf.Variable(tf.random.uniform([size.batch, size.dimension]), trainable=False).value()
        for _ in tables
    ]
    rows = [trainable for _, trainable in found]
    gradients = tf.gradients([pooled for pooled, _ in found], rows, grad_ys=above)
    optimizer = tfra.dynamic_embedding.DynamicEmbeddingOptimizer(
        tf.train.AdagradOptimizer(LEARNING_RATE)
    )
    return optimizer.apply_gradients(zip(gradients, rows))
