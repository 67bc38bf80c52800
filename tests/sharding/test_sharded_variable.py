"""`tf.train.Checkpoint`, and whatever saves by it, of tables of which each rank has rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.reporting.warnings_given import forget_warnings, warnings_given
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sharding.transport_in_use import communicating_through

WHOLE = np.arange(12, dtype=np.float32).reshape([6, 2])


def checkpoint_of(start: np.ndarray) -> Any:
    return tensorflow.train.Checkpoint(table=sok.Variable(start, name="table"))


def written(folder: Path, transport: Transport) -> str:
    with context.eager_mode(), communicating_through(transport):
        path: str = checkpoint_of(WHOLE).write(str(folder / str(transport.rank)))
        return path


def read(path: str, transport: Transport) -> Any:
    with context.eager_mode(), communicating_through(transport):
        checkpoint = checkpoint_of(0 * WHOLE)
        checkpoint.read(path).assert_consumed()
        return checkpoint.table.numpy()


def test_each_rank_reads_the_rows_that_it_wrote(tmp_path: Path) -> None:
    forget_warnings()
    paths = run_ranks(2, lambda transport: written(tmp_path, transport))
    parts = run_ranks(2, lambda transport: read(paths[transport.rank], transport))
    np.testing.assert_array_equal(parts, [WHOLE[::2], WHOLE[1::2]])
    (said,) = [one for one in warnings_given() if "this rank's rows" in one]
    assert "'table'" in said and "sok.dump" in said


def test_rows_of_a_rank_are_not_taken_for_those_of_another(tmp_path: Path) -> None:
    def read_that_of_rank_0(transport: Transport) -> None:
        if transport.rank == 1:
            with pytest.raises(tf.errors.NotFoundError, match="rows_of_rank_1_of_2"):
                read(paths[0], transport)

    paths = run_ranks(2, lambda transport: written(tmp_path, transport))
    run_ranks(2, read_that_of_rank_0)
    with pytest.raises(tf.errors.NotFoundError, match="VARIABLE_VALUE"):
        read(paths[0], OneRank())


def test_one_rank_saves_whole_tables(tmp_path: Path) -> None:
    path = written(tmp_path, OneRank())
    np.testing.assert_array_equal(read(path, OneRank()), WHOLE)
    with context.eager_mode():
        plain = tf.Variable(0 * WHOLE)
        tensorflow.train.Checkpoint(table=plain).read(path).assert_consumed()
        np.testing.assert_array_equal(plain.numpy(), WHOLE)
