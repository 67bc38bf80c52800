"""`sok.assign` and `sok.export`: rows by key, on their ranks."""

from __future__ import annotations

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through


def test_assigned_rows_are_exported_by_their_ranks() -> None:
    def check(transport: Transport) -> None:
        rank = transport.rank
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            spread = sok.Variable(np.zeros([5, 2], np.float32))
            whole = sok.Variable(np.zeros([3, 2], np.float32), mode="localized:1")
            session.run(tf.global_variables_initializer())
            session.run(sok.assign(spread, [2 + rank], [[8.0, 9.0]]))
            session.run(sok.assign(whole, [1, 2], [[1.0, 1], [2, 2]], check_ownership=False))
            (keys, rows), (whole_keys, whole_rows) = session.run(
                [sok.export(spread), sok.export(whole)]
            )
        assert list(keys) == [[0, 2, 4], [1, 3]][rank] and keys.dtype == np.int64
        np.testing.assert_array_equal(rows[1], [8, 9])
        assert rows.sum() == 17
        np.testing.assert_array_equal(
            whole_rows, [[[0, 0], [1, 1], [2, 2]], []][1 - rank] or np.zeros([0, 2])
        )
        assert list(whole_keys) == [[], [0, 1, 2]][rank]

    run_ranks(2, check)


def test_keys_of_other_ranks_are_an_error_or_skipped() -> None:
    def check(transport: Transport) -> None:
        with communicating_through(transport), context.eager_mode():
            table = sok.Variable(np.zeros([4, 1], np.float32), name="users")
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"'users'.*check_ownership"):
                sok.assign(table, [0, 1], [[1.0], [2.0]])
            sok.assign(table, [0, 1], [[1.0], [2.0]], check_ownership=False)
            np.testing.assert_array_equal(table.numpy(), [[1.0 + transport.rank], [0.0]])
            with pytest.raises(tf.errors.InvalidArgumentError, match="does not have"):
                sok.assign(table, [4], [[1.0]], check_ownership=False)
            with pytest.raises(tf.errors.InvalidArgumentError, match="one row for each key"):
                sok.assign(table, [transport.rank], [[1.0], [2.0]])

    run_ranks(2, check)


def test_other_variables_are_refused() -> None:
    with pytest.raises(TypeError, match=r"neither a sok.Variable nor a slot"):
        sok.export(tf.Variable([[1.0]], name="plain"))
    with pytest.raises(TypeError, match="plain"):
        sok.assign(tf.Variable([[1.0]], name="plain"), [0], [[1.0]])
