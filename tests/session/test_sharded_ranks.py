"""A script of Horovod trains alike, whether or not sessions shard its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.horovod_processes import NEEDS_HOROVOD, check_all_done


@NEEDS_HOROVOD
@pytest.mark.slow
def test_scripts_train_alike_with_sharded_tables(tmp_path: Path) -> None:
    check_all_done(2, "tests.session.sharded_ranks", str(tmp_path))
