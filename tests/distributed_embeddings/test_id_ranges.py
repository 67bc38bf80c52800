"""Ids of bags as a session sees them, whose number no graph knows."""

from __future__ import annotations

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.distributed_embedding import DistributedEmbedding
from graph_opt.distributed_embeddings.embedding import Embedding
from graph_opt.sharding.transport import OneRank
from graph_opt.sok.communication import communicating_through


def test_bags_of_any_sizes_in_a_session() -> None:
    with communicating_through(OneRank()), tf.Session() as session:
        fed = [tf.sparse.placeholder(tf.int64, [None, None]) for _ in range(3)]
        layer = DistributedEmbedding(
            [
                Embedding(rows, 2, combiner="sum", embeddings_initializer="ones")
                for rows in (5, 7, 9)
            ]
        )
        pooled = layer(fed)
        session.run(tf.global_variables_initializer())
        counts = [[1, 2], [3, 1], [0, 2]]

        def bags(ids: int) -> dict:
            return {
                one: tf.SparseTensorValue(
                    [(bag, place) for bag, size in enumerate(sizes) for place in range(size)],
                    np.full([sum(sizes)], ids, np.int64),
                    (2, 3),
                )
                for one, sizes in zip(fed, counts)
            }

        for found, sizes in zip(session.run(pooled, bags(4)), counts):
            np.testing.assert_array_equal(found, [[size] * 2 for size in sizes])
        with pytest.raises(tf.errors.InvalidArgumentError, match="has no row"):
            session.run(pooled, bags(6))


@pytest.mark.parametrize("fed", [False, True])
def test_inputs_may_have_several_bags_a_sample(fed: bool) -> None:
    with communicating_through(OneRank()), tf.Session() as session:
        values = [np.arange(24).reshape(2, 3, 4) % 5, np.arange(8).reshape(2, 4) % 7]
        ids = [
            tf.placeholder(tf.int64, [None, *one.shape[1:]]) if fed else tf.constant(one)
            for one in values
        ]
        layer = DistributedEmbedding(
            [Embedding(rows, 2, combiner="sum", embeddings_initializer="ones") for rows in (5, 7)]
        )
        pooled = layer(ids)
        session.run(tf.global_variables_initializer())
        found = session.run(pooled, dict(zip(ids, values)))
        assert [one.shape for one in found] == [(2, 3, 2), (2, 2)]
        assert all((one == 4).all() for one in found)
