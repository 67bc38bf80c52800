"""DeepRec's `tf.hash_table`: values by key, trained and saved as dynamic tables are."""

from __future__ import annotations

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf


def test_values_of_keys_are_trained() -> None:
    with graph_opt.install():
        partitioner = tf.hash_table.FixedSizeHashTablePartitioner(2)
        with tf.variable_scope("model"):
            table = tf.hash_table.DistributedHashTable(
                [2, 3], tf.float32, tf.ones_initializer, partitioner, name="users"
            )
            other = tf.hash_table.DistributedHashTable([4], tf.float32)
    keys = tf.constant([[1, 2], [-7, 1]])
    values = table.lookup(keys)
    assert values.shape.as_list() == [2, 2, 2, 3]
    train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(values))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        got, rows = session.run([values, other.lookup([5, 6])])
    # Key 1 comes twice.
    expected = np.array([[0.0, 0.5], [0.5, 0.0]])
    np.testing.assert_array_equal(got, np.broadcast_to(expected[..., None, None], got.shape))
    assert rows.shape == (2, 4) and rows.any()
    names = [one.op.name for one in tf.global_variables()]
    assert names == ["model/users/part_0", "model/users/part_1", "model/hash_table"]


def test_what_cannot_be_is_refused() -> None:
    with graph_opt.install():
        for shape in ([None], []):
            with pytest.raises(ValueError, match="need known dimensions"):
                tf.hash_table.DistributedHashTable(shape, tf.float32)
        with pytest.raises(ValueError, match="num_shards is 0; need 1 or more"):
            tf.hash_table.FixedSizeHashTablePartitioner(0)
    assert not hasattr(tf, "hash_table")
