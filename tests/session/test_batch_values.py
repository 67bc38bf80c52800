"""What exists in prefetch alone is computed for main's batch, unless a table decides it."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import one_of_each

ROWS, WIDTH, BATCH, STEPS = 20, 4, 8, 4
KINDS = ("plain", "safe", "weighted")


def looked_up(kind: str, table: Any, ids: Any) -> Any:
    if kind == "plain":
        return tf.nn.embedding_lookup(table, ids[:, 0])
    sparse = tf.sparse.from_dense(ids)
    if kind == "safe":
        return tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner="mean")
    values = tf.cast(sparse.values, tf.float32) + 0.5
    weights = tf.SparseTensor(sparse.indices, values, sparse.dense_shape)
    return tf.nn.embedding_lookup_sparse(table, sparse, weights, combiner="sqrtn")


def gradients_of(kind: str, resource: bool) -> List[Any]:
    """A train op that moves nothing, the loss, and the gradients of two tables."""
    random = np.random.RandomState(0)
    data = {
        "ids": random.randint(1, ROWS, [STEPS * BATCH, 3]).astype(np.int64),
        "label": random.rand(STEPS * BATCH).astype(np.float32),
    }
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(BATCH)
    batch = tf.data.make_one_shot_iterator(dataset).get_next()
    tables = [
        tf.get_variable(
            name,
            initializer=random.normal(size=[ROWS, WIDTH]).astype(np.float32),
            use_resource=resource,
        )
        for name in ("users", "items")
    ]
    rows = [looked_up(kind, table, batch["ids"]) for table in tables]
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows[0] * rows[1], 1) - batch["label"]))
    optimizer = tf.train.AdagradOptimizer(0.0)
    pairs = optimizer.compute_gradients(loss)
    parts = [part for slices, _ in pairs for part in (slices.values, slices.indices)]
    return [optimizer.apply_gradients(pairs), loss, *parts]


def config(group: bool, ahead: bool) -> Any:
    made = graph_opt.ConfigProto()
    options = made.graph_options.optimizer_options
    options.do_group_embedding = group
    options.do_async_embedding = ahead
    if ahead:
        options.async_embedding_options.threads_num = 1
        options.async_embedding_options.capacity = 2
        options.async_embedding_options.infer_io_stage = True
    return made


def steps(kind: str, resource: bool, options: Any) -> List[List[Any]]:
    with tf.Graph().as_default():
        fetches = gradients_of(kind, resource)
        with graph_opt.Session(config=options) as session:
            session.run(tf.global_variables_initializer())
            return [session.run(fetches) for _ in range(STEPS)]


@pytest.mark.parametrize("kind, resource", one_of_each(KINDS, [True, False]))
def test_gradients_of_tables_are_fetched_with_the_step(kind: str, resource: bool) -> None:
    stock = steps(kind, resource, None)
    for group, ahead in ((True, False), (False, True), (True, True)):
        for found, expected in zip(steps(kind, resource, config(group, ahead)), stock):
            for one, other in zip(found[1:], expected[1:]):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_what_a_stage_computes_of_a_batch_is_fetched() -> None:
    def run(options: Any) -> List[Any]:
        with tf.Graph().as_default() as graph:
            train, *_ = gradients_of("safe", resource=False)
            unique = next(each for each in graph.get_operations() if each.type == "Unique")
            late = tf.reduce_sum(unique.outputs[0])
            with graph_opt.Session(config=options) as session:
                session.run(tf.global_variables_initializer())
                fetches = [train, *unique.outputs, late]
                return [session.run(fetches)[1:] for _ in range(STEPS)]

    for found, expected in zip(run(config(True, True)), run(None)):
        for one, other in zip(found, expected):
            np.testing.assert_array_equal(one, other)


def test_rows_that_a_stage_reads_are_refused() -> None:
    """The table may have been written since."""
    with tf.Graph().as_default() as graph:
        train, *_ = gradients_of("weighted", resource=True)
        gather = next(each for each in graph.get_operations() if each.type == "ResourceGather")
        with graph_opt.Session(config=config(False, True)) as session:
            session.run(tf.global_variables_initializer())
            session.run(train)
            with pytest.raises(tf.errors.InvalidArgumentError) as raised:
                session.run([train, gather.outputs[0]])
            assert "cannot fetch '{}'".format(gather.outputs[0].name) in str(raised.value)
            for _ in range(STEPS - 1):
                session.run(train)
