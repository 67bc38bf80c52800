"""A program for each of 1, 2 or 4 ranks of Horovod: trains the small model, looks up and exports.

Its argument is a folder that all ranks see; a SavedModel goes to `served` there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Dict, List

import numpy as np
import pytest

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod
from graph_opt.sharding.transport import OneRank
from graph_opt.sok.communication import transport_in_use
from tests.passes import fused_models
from tests.sharding.placed_tables import check_on_rank
from tests.sharding.test_exporting import export_on
from tests.sharding.transports import check_gradients, check_messages, check_reductions
from tests.sok import release1_model, test_prefetched_hashed_tables, test_release1_saver
from tests.sok.saved_ranks import check_saving
from tests.sok.trained_tables import BATCH, Part, train_part, train_stock

CUTS: Dict[int, List[int]] = {1: [0, BATCH], 2: [0, 2, BATCH], 4: [0, 0, 2, 5, BATCH]}
STEPS = 100


def main() -> None:
    """Runs as one rank; an assertion that fails ends all."""
    try:
        sok.init()
    except RuntimeError as error:
        assert "horovod.tensorflow.init()" in str(error)
    horovod().init()
    sok.init()
    transport = transport_in_use()
    for optimizer in ("adam", "momentum"):
        first, second = trained(optimizer), trained(optimizer)
        for part, again, whole in zip(first, second, train_stock(optimizer, STEPS)):
            np.testing.assert_array_equal(part.rows, again.rows)
            np.testing.assert_allclose(part.rows, whole[part.keys], rtol=1e-4, atol=1e-5)
    check_on_rank(transport)
    export_on(transport, os.path.join(sys.argv[1], "served"))
    if transport.size == 2:
        check_communication()
        check_broadcast()
        check_distributed_optimizers()
        check_reduced_tables()
        check_reductions(transport)
        check_gradients(transport)
        check_messages(transport)
        check_saving(sys.argv[1])
        check_release_1(Path(sys.argv[1]))
        check_prefetched_keys(Path(sys.argv[1]))
    print("rank {} is done".format(sok.rank()))


def trained(optimizer: str) -> List[Part]:
    """This rank's part of the tables after training."""
    transport = transport_in_use()
    return train_part(transport, optimizer, CUTS[transport.size], STEPS)


def check_prefetched_keys(folder: Path) -> None:
    """Lookups by key that run ahead, with fused updates, train as those that do not."""
    transport = transport_in_use()
    plain, ahead = (
        test_prefetched_hashed_tables.trained(transport, config, str(folder / name), "adagrad")
        for name, config in (("plain", None), ("ahead", fused_models.config(prefetch=True)))
    )
    assert sorted(plain) == sorted(ahead)
    for key, row in plain.items():
        np.testing.assert_array_equal(ahead[key], row)


def check_release_1(folder: Path) -> None:
    """Layers with rows by key and without, and the files of their `Saver`, on two ranks."""
    transport = transport_in_use()
    for use_hashtable in (True, False):
        optimizer = "plugin_adam" if use_hashtable else "adam"
        ours = release1_model.script(
            transport, optimizer, CUTS[2], 50, scale=1024, use_hashtable=use_hashtable
        )
        whole = release1_model.stock(50)
        if use_hashtable:  # whose rows move as those of any table by this optimizer
            whole = release1_model.script(OneRank(), optimizer, [0, release1_model.BATCH], 50)
        np.testing.assert_allclose(ours.rows, whole.rows[ours.keys], rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(ours.dense, whole.dense, rtol=1e-4, atol=2e-5)
        tables = folder / "tables_{}".format(use_hashtable)
        test_release1_saver.dump(transport, tables, use_hashtable=use_hashtable)
        found = test_release1_saver.restored(transport, tables, use_hashtable=use_hashtable)
        np.testing.assert_array_equal(found, test_release1_saver.values())


def check_communication() -> None:
    """Every function of `sok.communication`, on two ranks."""
    rank = sok.rank()
    with tf.Graph().as_default(), tf.Session() as session:
        reduced, gathered, root, (sent, sizes) = session.run(
            [
                sok.communication.allreduce(tf.constant([1.0, rank]), "average"),
                sok.communication.allgather(tf.constant([rank])),
                sok.communication.broadcast(tf.constant(rank + 5.0), 1),
                sok.communication.alltoall(tf.constant([rank, rank + 10]), [1, 1]),
            ]
        )
    assert list(reduced) == [1.0, 0.5] and list(gathered) == [0, 1] and root == 6.0
    assert list(sent) == [10 * rank, 10 * rank + 1] and list(sizes) == [1, 1]


def check_broadcast() -> None:
    """What scripts do when they start keeps the rows of each rank."""
    rank = sok.rank()
    hook = horovod().BroadcastGlobalVariablesHook(0)
    with tf.Graph().as_default():
        table = sok.Variable(np.arange(8, dtype=np.float32).reshape(4, 2), name="table")
        other = tf.get_variable("other", initializer=10.0 + rank)
        optimizer = tf.train.AdagradOptimizer(0.0, initial_accumulator_value=1.0 + rank)
        optimizer.apply_gradients([(tf.ones([2, 2]), table), (tf.constant(0.0), other)])
        tf.train.get_or_create_global_step()
        slot = optimizer.get_slot(table, "accumulator")
        with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
            rows, value, kept = session.run([table, other, slot])
    assert value == 10.0 and (kept == 1.0 + rank).all()
    np.testing.assert_array_equal(rows, np.arange(8).reshape(4, 2)[rank::2])


def check_distributed_optimizers() -> None:
    """Horovod's optimizers train tables and other variables with the same averages."""
    rank, hvd = sok.rank(), horovod()
    for op, divisor in ((hvd.Average, 2), (hvd.Sum, 1)):
        with tf.Graph().as_default():
            table = sok.Variable(np.zeros([4, 2], np.float32), name="table")
            other = tf.get_variable("other", initializer=0.0)
            ids = tf.RaggedTensor.from_row_lengths(tf.constant([0, 1, 1 + rank], tf.int64), [3])
            pooled = sok.lookup_sparse([table], [ids], combiners=["sum"])[0]
            loss = tf.reduce_sum(pooled) + other * (1.0 + rank)
            optimizer = tf.train.GradientDescentOptimizer(1.0)
            train = hvd.DistributedOptimizer(optimizer, op=op).minimize(loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(train)
                rows, value = session.run([table, other])
        occurrences = np.array([2, 3, 1, 0])[rank::2]
        np.testing.assert_array_equal(rows, np.stack([-occurrences / divisor] * 2, axis=1))
        assert value == -3.0 / divisor


def check_reduced_tables() -> None:
    """Sums of sums are refused, whatever the kind of table."""
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.Variable(np.zeros([4, 2], np.float32), name="table")
        ids = tf.RaggedTensor.from_row_lengths(tf.constant([0, 1], tf.int64), [2])
        looked_up = sok.lookup_sparse([table, table], [ids, ids], combiners=["sum", "mean"])
        layer = sok.DistributedEmbedding("sum", 4, 2, slot_num=1, max_nnz=2)
        by_key = layer(ids.to_sparse())
        session.run(tf.global_variables_initializer())
        for rows, part, told in (
            (tf.concat(looked_up, 1), table, "'table'"),
            (by_key, layer.embedding_variable, "'EmbeddingVariable'"),
        ):
            gradient = tf.gradients(tf.reduce_sum(rows), part)[0]
            for given in (gradient, tf.convert_to_tensor(gradient) / 2.0):
                with pytest.raises(tf.errors.InvalidArgumentError, match=told):
                    session.run(horovod().allreduce(given))


if __name__ == "__main__":
    main()
