"""Processes that reach each other through Horovod."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graph_opt.sharding.transport import OneRank
from tests.horovod_processes import NEEDS_HOROVOD, check_all_done
from tests.sharding.test_exporting import export_on, served


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_ranks_of_horovod_train_and_export_as_one_process(num_ranks: int, tmp_path: Path) -> None:
    check_all_done(num_ranks, "tests.sok.horovod_ranks", str(tmp_path))
    alone = export_on(OneRank(), str(tmp_path / "alone"))
    np.testing.assert_allclose(served(str(tmp_path / "served")), alone, rtol=1e-5)
