"""Tables on N ranks against TensorFlow's lookups of whole tables."""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

import numpy as np
import pytest

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sok.communication import communicating_through
from tests.quick_cases import slow_but
from tests.sok.trained_tables import BATCH, OPTIMIZERS, SHAPES, train_part, train_stock

CUTS = {1: [0, BATCH], 2: [0, 2, BATCH], 3: [0, 0, 4, BATCH]}  # of three ranks one has no bags


def joined(num_ranks: int, optimizer: str, steps: int) -> List[np.ndarray]:
    parts = run_ranks(
        num_ranks, lambda transport: train_part(transport, optimizer, CUTS[num_ranks], steps)
    )
    tables = [np.full(shape, np.nan, np.float32) for shape in SHAPES]
    for of_rank in parts:
        for table, part in zip(tables, of_rank):
            table[part.keys] = part.rows
    return tables


@pytest.mark.parametrize(
    "num_ranks", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)), 3]
)
@pytest.mark.parametrize("optimizer", slow_but(sorted(OPTIMIZERS), "adam", "momentum"))
def test_training_on_ranks_is_training_on_the_whole_batch(optimizer: str, num_ranks: int) -> None:
    stock = train_stock(optimizer, steps=30)
    for ours, theirs in zip(joined(num_ranks, optimizer, steps=30), stock):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_two_runs_are_equal_to_the_bit() -> None:
    for first, second in zip(joined(3, "adam", 20), joined(3, "adam", 20)):
        np.testing.assert_array_equal(first, second)


def test_a_table_starts_the_same_on_any_number_of_ranks() -> None:
    def start(transport: Transport) -> Tuple[np.ndarray, np.ndarray]:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            table = sok.Variable(shape=[23, 5], initializer="uniform", name="table")
            session.run(table.initializer)
            return table.rows.keys(transport.rank), session.run(table)

    whole = start(OneRank())[1]
    for keys, rows in run_ranks(4, start):
        np.testing.assert_array_equal(rows, whole[keys])


def test_tables_of_one_name_start_with_different_values() -> None:
    with communicating_through(OneRank()), tf.Session() as session:
        tables = [sok.Variable(shape=[4, 2], initializer="uniform", name="t") for _ in range(2)]
        session.run(tf.global_variables_initializer())
        first, second = session.run(tables)
        assert np.abs(first - second).min() > 0


def test_rows_of_dense_ids_come_in_their_order() -> None:
    values = np.arange(22, dtype=np.float32).reshape(11, 2)

    def rows(transport: Transport) -> np.ndarray:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            table = sok.Variable(values)
            found = sok.all2all_dense_embedding(table, [[transport.rank, 10], [3, 3]])
            assert found.shape == [2, 2, 2]
            session.run(table.initializer)
            result: np.ndarray = session.run(found)
            return result

    for rank, found in enumerate(run_ranks(3, rows)):
        np.testing.assert_array_equal(found, values[np.array([[rank, 10], [3, 3]])])


def test_properties_of_tables_and_their_filter() -> None:
    def check(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default():
            rank = transport.rank
            spread = sok.Variable(np.zeros([5, 2], np.float32))
            whole = sok.Variable(
                shape=[4, 3], initializer=1, mode="localized:1", name="whole", use_resource=True
            )
            plain = tf.Variable(0.0)
            assert spread.shape == [3 - rank, 2] and spread.global_shape == (5, 2)
            assert whole.shape == [4 * rank, 3] and whole.target_gpu == 1
            assert (spread.target_gpu, spread.global_gpu_id, spread.num_gpus) == (-1, rank, 2)
            assert (spread.key_map(3), whole.key_map(3)) == (1, 3)
            assert (spread.name, whole.name) == ("sok_static_Variable_0:0", "whole:0")
            ours, others = sok.filter_variables([plain, spread, whole])
            assert [one.name for one in ours] == [spread.name, whole.name]
            assert len(others) == 1
            kinds = sok.DistributedVariable, sok.LocalizedVariable
            assert [[isinstance(one, kind) for kind in kinds] for one in ours] == [
                [True, False],
                [False, True],
            ]
            made = sok.LocalizedVariable(np.ones([4, 3]), target_gpu=1, trainable=False)
            assert made.shape == whole.shape and made.target_gpu == 1

    run_ranks(2, check)


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: sok.Variable([[1.0]], mode="localized:7"), RuntimeError, "there are 1 ranks"),
        (lambda: sok.LocalizedVariable([[1.0]], target_gpu=1), RuntimeError, "there are 1 ranks"),
        (lambda: sok.DistributedVariable([[1.0]], num_gpus=2), ValueError, "this is rank 0 of 1"),
        (lambda: sok.Variable([[1.0]], mode="spread"), RuntimeError, "'localized:RANK'"),
        (lambda: sok.Variable(), ValueError, "initial value or a shape"),
        (lambda: sok.Variable(shape=[3], initializer=0), ValueError, "needs a shape"),
        (lambda: sok.Variable([[1.0]], use_resource=False), TypeError, "leave out use_resource"),
        (
            lambda: sok.lookup_sparse([sok.Variable([[1.0]])], [[[0]], [[0]]]),
            ValueError,
            "params has 1 entries, but sp_ids has 2",
        ),
        (lambda: sok.lookup_sparse([tf.Variable([[1.0]])], [[[0]]]), TypeError, "sok.Variable"),
        (
            lambda: sok.lookup_sparse([sok.Variable([[1.0]])], [[[0]]], combiners=["max"]),
            ValueError,
            "'max'; choose one of sum, mean, sqrtn",
        ),
    ],
)
def test_wrong_arguments_are_named(make: Callable[[], Any], error: Any, message: str) -> None:
    with communicating_through(OneRank()), pytest.raises(error, match=message):
        make()


def test_an_id_that_no_rank_has_fails_on_its_rank() -> None:
    def work(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            table = sok.Variable(np.zeros([5, 2], np.float32), name="users")
            found = sok.all2all_dense_embedding(table, [7 if transport.rank else 1])
            session.run(table.initializer)
            session.run(found)

    with pytest.raises(tf.errors.InvalidArgumentError, match="users"):
        run_ranks(2, work)
