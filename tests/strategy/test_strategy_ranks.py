"""DeepRec's and HybridBackend's scopes on real ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.horovod_processes import NEEDS_HOROVOD, check_all_done
from tests.release_features import needs_estimators


@pytest.mark.slow
@needs_estimators
@NEEDS_HOROVOD
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_train_and_export_as_one_process(ranks: int, tmp_path: Path) -> None:
    check_all_done(ranks, "tests.strategy.strategy_ranks", str(tmp_path))
