"""Gradients of group lookups: equal to stock's, usable by every optimizer, reproducible."""

from __future__ import annotations

from itertools import product
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.embedding.group_lookup import group_embedding_lookup_sparse
from tests.embedding.lookup_groups import IdBags, in_session, random_bags, table
from tests.plain_sessions import plain_session
from tests.quick_cases import slow_but

OPTIMIZERS: Dict[str, Callable[[], tf.train.Optimizer]] = {
    "GradientDescent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "Nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "AdagradDA": lambda: tf.train.AdagradDAOptimizer(0.1, tf.train.get_or_create_global_step()),
    "Ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "Adam": lambda: tf.train.AdamOptimizer(0.1),
    "RMSProp": lambda: tf.train.RMSPropOptimizer(0.1),
    "Adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "ProximalAdagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1),
    "ProximalGradientDescent": lambda: tf.train.ProximalGradientDescentOptimizer(0.1),
}


def loss_of(pooled: List[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(tf.sin(rows) * (1.5 + rows)) for rows in pooled])


def separate(
    tables: List[Any], bags: List[IdBags], combiners: List[str], weights: List[Any]
) -> List[tf.Tensor]:
    return [
        tf.nn.safe_embedding_lookup_sparse(
            table, bag.sparse(), weight, combiner, partition_strategy="mod"
        )
        for table, bag, combiner, weight in zip(tables, bags, combiners, weights)
    ]


@pytest.mark.parametrize(
    "use_resource, weighted, partitions",
    slow_but(
        product([False, True], [False, True], [1, 3]),
        *((False, False, 1), (True, True, 3)),
    ),
)
def test_gradients_equal_those_of_separate_lookups(
    use_resource: bool, weighted: bool, partitions: int
) -> None:
    random = np.random.RandomState(7)
    tables = [table("t{}".format(i), 13, 3 + 8 * i, use_resource, partitions) for i in range(3)]
    tables.append(tables[1])
    bags = [random_bags(random, 9, 13) for _ in tables]
    combiners = ["sum", "mean", "sqrtn", "mean"]
    weights = [bag.sparse_weights() if weighted else None for bag in bags]
    grouped = group_embedding_lookup_sparse(
        tables, [bag.sparse() for bag in bags], combiners, sp_weights=weights
    )
    parts = [part for one in tables[:3] for part in (list(one) if partitions > 1 else [one])]
    sources = parts + [weight.values for weight in weights if weight is not None]
    ours = tf.gradients(loss_of(grouped), sources)
    assert all(isinstance(g, tf.IndexedSlices) for g in ours[: len(parts)])
    theirs = tf.gradients(loss_of(separate(tables, bags, combiners, weights)), sources)
    got, expected = in_session(
        [[tf.convert_to_tensor(g) for g in gradients] for gradients in (ours, theirs)]
    )
    for one, other in zip(got, expected):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_weight_gradients_are_those_of_finite_differences() -> None:
    params = table("t", 6, 5, use_resource=True)
    bags = IdBags([[1, 2, 1], [3], [4, 5]], [[0.5, 1.0, 2.0], [1.5], [0.7, 0.3]])
    weights = tf.placeholder(tf.float32, [6])
    sparse = bags.sparse_weights()
    sp_weights = tf.SparseTensor(sparse.indices, weights, sparse.dense_shape)
    start = np.array([0.5, 1.0, 2.0, 1.5, 0.7, 0.3], np.float32)
    for combiner in ("sum", "mean", "sqrtn"):
        pooled = group_embedding_lookup_sparse(
            params, bags.sparse(), combiner, sp_weights=sp_weights
        )
        loss = loss_of(pooled)
        gradient = tf.gradients(loss, weights)[0]
        with plain_session() as session:
            session.run(tf.global_variables_initializer())
            got = session.run(gradient, {weights: start})
            for i in range(6):
                step = np.zeros(6, np.float32)
                step[i] = 0.01
                up = session.run(loss, {weights: start + step})
                down = session.run(loss, {weights: start - step})
                assert got[i] == pytest.approx((up - down) / 0.02, rel=2e-2, abs=2e-3)


def test_rows_are_unique_ascending_and_the_same_whatever_the_threads() -> None:
    random = np.random.RandomState(3)
    bags = random_bags(random, 9000, 500, longest=6)
    seen: List[Tuple[np.ndarray, np.ndarray]] = []
    for threads in (1, 2, 4, 4):
        with tf.Graph().as_default():
            params = table("t", 500, 6, use_resource=False)
            pooled = group_embedding_lookup_sparse([params], [bags.sparse()], "mean")
            gradient = tf.gradients(loss_of(pooled), params)[0]
            config = tf.ConfigProto(intra_op_parallelism_threads=threads)
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                seen.append(session.run((gradient.indices, gradient.values)))
    indices = seen[0][0]
    assert (np.diff(indices) > 0).all() and len(indices) > 400
    for other in seen[1:]:
        np.testing.assert_array_equal(seen[0][0], other[0])
        np.testing.assert_array_equal(seen[0][1], other[1])


def test_a_lookup_that_no_loss_depends_on_has_no_gradient() -> None:
    tables = [table("t{}".format(i), 9, 4, use_resource=bool(i)) for i in (0, 1)]
    more = table("t2", 9, 4, use_resource=True)
    ids = tf.constant([1, 2, 2])
    pooled = group_embedding_lookup_sparse([tables[0], tables[1], more], [ids] * 3, "sum")
    gradients = tf.gradients(loss_of(pooled[:2]), [*tables, more])
    assert gradients[2] is None and gradients[1] is not None and gradients[0] is not None


def test_two_groups_may_read_one_table() -> None:
    params = table("t", 9, 4, use_resource=True)
    first, second = tf.constant([1, 2, 2]), tf.constant([2, 8])
    twice = [group_embedding_lookup_sparse(params, ids, "sum")[0] for ids in (first, second)]
    once = group_embedding_lookup_sparse([params] * 2, [first, second], "sum")
    got, expected = in_session(
        [tf.convert_to_tensor(tf.gradients(loss_of(p), params)[0]) for p in (twice, once)]
    )
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_gradients_of_16_bit_tables_are_of_their_type() -> None:
    params = table("t", 9, 4, use_resource=True, dtype=tf.bfloat16)
    pooled = group_embedding_lookup_sparse(params, tf.constant([1, 2, 2]), "sum")[0]
    gradient = tf.gradients(tf.reduce_sum(tf.cast(pooled, tf.float32)), params)[0]
    values, indices = in_session([tf.cast(gradient.values, tf.float32), gradient.indices])
    np.testing.assert_array_equal(indices, [1, 2])
    np.testing.assert_array_equal(values, [[1.0] * 4, [2.0] * 4])


def losses(optimizer: str, use_resource: bool, grouped: bool) -> List[float]:
    random = np.random.RandomState(11)
    with tf.Graph().as_default():
        tables = [table("t{}".format(i), 30, 6, use_resource) for i in range(3)]
        bags = [random_bags(random, 20, 30) for _ in tables]
        if grouped:
            pooled = group_embedding_lookup_sparse(tables, [b.sparse() for b in bags], "mean")
        else:
            pooled = separate(tables, bags, ["mean"] * 3, [None] * 3)
        loss = tf.reduce_mean(tf.square(tf.add_n([tf.tanh(rows) for rows in pooled]) - 0.3))
        creator = OPTIMIZERS[optimizer]()
        step = tf.train.get_or_create_global_step()
        train = creator.minimize(loss, global_step=step)
        with plain_session() as session:
            session.run(tf.global_variables_initializer())
            return [session.run([loss, train])[0] for _ in range(20)]


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("optimizer", slow_but(sorted(OPTIMIZERS), "Adagrad", "AdagradDA"))
def test_training_equals_stock_with(optimizer: str, use_resource: bool) -> None:
    expected = losses(optimizer, use_resource, grouped=False)
    assert len(set(expected)) > 1
    np.testing.assert_allclose(losses(optimizer, use_resource, True), expected, rtol=1e-5)
