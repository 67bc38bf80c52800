"""Group lookups find the rows of sharded tables on other ranks."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sharding.transport import OneRank
from graph_opt.sharding.transport_in_use import communicating_through

ROWS = np.arange(24, dtype=np.float32).reshape(12, 2)
IDS = [[[3, 0, -1], [7, 7, 2]], [[11, 5, 5], [-1, -1, -1]]]


def looked_up(tables: List[Any], rank: int) -> List[tf.Tensor]:
    dense = tf.constant(IDS[rank], tf.int64)
    ids = tf.RaggedTensor.from_row_lengths(tf.reshape(dense, [-1]), [3, 3]).to_sparse()
    weights = tf.SparseTensor(ids.indices, tf.range(1.0, 7.0), ids.dense_shape)
    pooled = graph_opt.group_embedding_lookup_sparse(
        tables, [ids, ids], ["mean", "sum"], sp_weights=[weights, None]
    )
    return [*pooled, *graph_opt.group_embedding_lookup(tables[0], tf.abs(dense))]


def test_one_exchange_gives_what_whole_tables_give() -> None:
    with tf.Session() as session:
        tables = [tf.get_variable("one", initializer=ROWS), tf.constant(ROWS * 2)]
        session.run(tf.global_variables_initializer())
        whole = [session.run(looked_up(tables, rank)) for rank in range(2)]

    def work(transport: InProcessTransport) -> None:
        with communicating_through(transport), tf.Graph().as_default() as graph:
            divided = [
                sok.Variable(ROWS, name="one"),
                sok.Variable(ROWS * 2, name="two", mode="localized:1"),
            ]
            results = looked_up(divided, transport.rank)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for found, expected in zip(session.run(results), whole[transport.rank]):
                    np.testing.assert_allclose(found, expected, rtol=1e-6)
            types = [one.type for one in graph.get_operations()]
            assert types.count("ResourceExchangeGather") + types.count("ExchangeGather") == 2

    run_ranks(2, work, 60)


def trained(table: Any, ranks: List[int]) -> np.ndarray:
    """The rows after some steps on the bags of these ranks, of which the last ones lack row 0."""
    ids = tf.placeholder(tf.int64, [None, 2])
    bags = tf.RaggedTensor.from_tensor(ids).to_sparse()
    (pooled,) = graph_opt.group_embedding_lookup_sparse([table], [bags], ["sum"])
    loss = tf.reduce_sum(tf.square(pooled))
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, var_list=[table])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for first in (0, -1, -1):
            of_ranks = [[[first, -1], [3, 3]], [[5, -1]]]
            session.run(train, {ids: [bag for rank in ranks for bag in of_ranks[rank]]})
        found: np.ndarray = session.run(table)
        return found


def test_empty_bags_move_row_0_by_its_momentum_as_without_ranks() -> None:
    rows = ROWS + 1
    with tf.Graph().as_default():
        whole = trained(tf.get_variable("whole", initializer=rows), [0, 1])

    def work(transport: InProcessTransport) -> np.ndarray:
        with communicating_through(transport), tf.Graph().as_default():
            return trained(sok.Variable(rows, name="table"), [transport.rank])

    for rank, part in enumerate(run_ranks(2, work, 60)):
        np.testing.assert_allclose(part, whole[rank::2], rtol=1e-5)
    moved_once = rows[0] - 0.1 * 2 * rows[0]
    assert np.abs(whole[0] - moved_once).min() > 0.1


def test_what_exchanges_cannot_do_is_an_error() -> None:
    with communicating_through(OneRank()):
        table = sok.Variable(ROWS, name="table")
        ids = tf.sparse.from_dense(tf.constant([[1]], tf.int64))
        with pytest.raises(ValueError, match="default_id is 0 for table 'table'"):
            graph_opt.fused_embedding_lookup_sparse(table, ids, default_id=0)
