"""Two processes that reach each other through Horovod."""

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
def test_two_ranks_of_horovod(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", "--gloo"]
    ran = subprocess.run(
        [*command, sys.executable, "-m", "tests.sok.horovod_ranks", str(tmp_path)],
        cwd=str(REPOSITORY),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout
    assert "rank 0 is done" in ran.stdout and "rank 1 is done" in ran.stdout
