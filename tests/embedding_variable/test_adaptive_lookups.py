"""DeepRec's adaptive lookups: rows of a variable and of an EmbeddingVariable in one result."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.embedding_variable.adaptive_lookups import (
    adaptive_embedding_lookup_sparse,
    safe_adaptive_embedding_lookup_sparse,
)

SHARED = np.arange(8, dtype=np.float32).reshape(4, 2)


def tables() -> Any:
    shared = tf.get_variable("shared", initializer=SHARED)
    return shared, graph_opt.get_embedding_variable("own", 2)


def run(*fetches: Any) -> List[np.ndarray]:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return list(session.run(fetches))


def test_each_id_has_its_row_in_the_table_that_the_mask_says() -> None:
    shared, own = tables()
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([3, 900, 1], tf.int64), [2, 2])
    rows = adaptive_embedding_lookup_sparse(
        shared, own, ids, [2], None, adaptive_mask_tensor=[0, 1, 0]
    )
    np.testing.assert_array_equal(run(rows)[0], SHARED[[3, 2, 1]])


@pytest.mark.parametrize(("default_id", "of_none"), [(None, [0.0, 0.0]), (1, SHARED[1].tolist())])
def test_rows_of_a_batch_may_have_no_id(default_id: Any, of_none: List[float]) -> None:
    shared, own = tables()
    ids = tf.sparse.from_dense(tf.constant([[[3], [900]], [[0], [-7]], [[2], [901]]], tf.int64))
    rows = safe_adaptive_embedding_lookup_sparse(
        shared,
        own,
        ids,
        [2, 0],
        default_id=default_id,
        adaptive_mask_tensor=[0, 1, 1, 0, 0, 1],
    )
    assert rows.shape.as_list() == [3, 2, 2]
    expected = np.stack([SHARED[[3, 2]], np.array([of_none, of_none]), SHARED[[2, 0]]])
    np.testing.assert_array_equal(run(rows)[0], expected)


def test_both_tables_are_trained_and_rows_keep_what_they_learned() -> None:
    shared, own = tables()
    ids = tf.SparseTensor([[0, 0], [1, 0]], tf.constant([3, 900], tf.int64), [2, 1])
    rows = safe_adaptive_embedding_lookup_sparse(
        shared, own, ids, tf.constant([2]), adaptive_mask_tensor=[0, 1]
    )
    train = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(rows))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        got, table = session.run([rows, shared])
    np.testing.assert_array_equal(got, SHARED[[3, 2]] - 1)
    # A row that another one started as has no gradient by it.
    np.testing.assert_array_equal(table, SHARED - [[0], [0], [0], [1]])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"adaptive_mask_tensor": None}, ValueError, "need adaptive_mask_tensor, and no weights"),
        ({"sparse_weights": [1.0]}, ValueError, "need adaptive_mask_tensor, and no weights"),
        ({"combiner": "max"}, ValueError, "combiner is 'max'; need one of mean, sqrtn, sum"),
        ({"sparse_ids": [[3]]}, TypeError, "ids are a list; need a SparseTensor"),
    ],
)
def test_what_cannot_be_is_refused(arguments: Any, error: Any, message: str) -> None:
    shared, own = tables()
    given = {
        "sparse_ids": tf.sparse.from_dense([[3]]),
        "hash_ev_ids": [],
        "adaptive_mask_tensor": [0],
        **arguments,
    }
    with pytest.raises(error, match=message):
        safe_adaptive_embedding_lookup_sparse(shared, own, **given)
