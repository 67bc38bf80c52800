"""Processes that reach each other through Horovod."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.sharding.transport import OneRank
from tests.horovod_processes import NEEDS_HOROVOD, check_all_done
from tests.sharding.test_exporting import export_on, served
from tests.sok.hashed_savers import KEYS


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_ranks_of_horovod_train_and_export_as_one_process(num_ranks: int, tmp_path: Path) -> None:
    check_all_done(num_ranks, "tests.sok.horovod_ranks", str(tmp_path))
    alone = export_on(OneRank(), str(tmp_path / "alone"))
    np.testing.assert_allclose(served(str(tmp_path / "served")), alone, rtol=1e-5)


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("is_seen", [True, False])
def test_one_rank_saves_tables_of_keys_wherever_it_does(tmp_path: Path, is_seen: bool) -> None:
    # What a process has in memory, no other one sees.
    first = str(tmp_path) if is_seen else "ram://first"
    check_all_done(2, "tests.sok.hashed_savers", str(tmp_path), first)
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    for rank in (0, 1):
        part = "EmbeddingVariable/part_{}".format(rank)
        keys = reader.get_tensor(part + "-keys")
        assert sorted(keys) == [key for key in KEYS if key % 2 == rank]
        np.testing.assert_array_equal(reader.get_tensor(part + "-values"), np.full([20, 4], 2.5))
        momentum = reader.get_tensor(part + "/Momentum-values")
        np.testing.assert_array_equal(momentum, np.full([20, 4], -1.5))
