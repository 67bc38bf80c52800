"""Which variables Horovod may broadcast: not those of which each rank has rows of its own."""

from __future__ import annotations

import numpy as np
import pytest

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.own_rows import without_own_rows
from graph_opt.sharding.transport import OneRank
from graph_opt.sok.communication import communicating_through
from tests.release_features import keras_optimizers


@pytest.mark.parametrize("family", ["train", "keras"])
def test_tables_and_their_slots_are_not_broadcast(family: str) -> None:
    with communicating_through(OneRank()), tf.Graph().as_default():
        table = sok.Variable(np.ones([4, 2], np.float32), name="table")
        layer = sok.DistributedEmbedding("sum", 4, 2, slot_num=1, max_nnz=1)
        kernel = tf.get_variable("table_of_others/kernel", [4, 2], use_resource=True)
        pairs = [(tf.ones(one.shape), one) for one in (table, kernel)]
        slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([3], tf.int64))
        pairs.append((slices, layer.embedding_variable))
        if family == "train":
            tf.train.AdamOptimizer().apply_gradients(pairs)
        else:
            keras_optimizers().Adam().apply_gradients(pairs)
        every = tf.global_variables()
        kept = without_own_rows(every)
        names = {one.op.name for one in kept}
        assert len(every) > len(kept) and kernel in kept
        assert not {name for name in names if "EmbeddingVariable" in name}
        assert not {name for name in names if "table" in name.split("/")}
        assert sum("kernel" in name for name in names) == 3  # with its slots


def test_a_table_of_another_graph_owns_nothing_here() -> None:
    with communicating_through(OneRank()), tf.Graph().as_default():
        table = sok.Variable(np.ones([4, 2], np.float32), name="table")
        with tf.Graph().as_default():
            ones = tf.ones([4, 2])
            others = [tf.Variable(ones, name=name) for name in ("table", "table/Adam")]
            kept = without_own_rows([*others, table])
        assert len(kept) == 2 and kept[0] is others[0] and kept[1] is others[1]
