"""Replicated tables that two processes train through Horovod, fused and not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None, reason="Horovod is not installed: make horovod"
)
def test_fused_ranks_train_as_stock_ones_do() -> None:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", "--gloo"]
    ran = subprocess.run(
        [*command, sys.executable, "-m", "tests.sharding.replicated_ranks"],
        cwd=str(REPOSITORY),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout
    assert "rank 0 is done" in ran.stdout and "rank 1 is done" in ran.stdout
