"""Programs that Horovod starts as ranks on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NEEDS_HOROVOD = pytest.mark.horovod  # `make test-horovod` runs these with any TensorFlow
_REPOSITORY = Path(__file__).resolve().parents[1]


def run_ranks_of(
    num_ranks: int, module: str, *arguments: str, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Runs a module of the tests on so many ranks; their output comes as one text."""
    launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", str(num_ranks), "--gloo"]
    return subprocess.run(
        [*launcher, sys.executable, "-m", module, *arguments],
        cwd=str(_REPOSITORY),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )


def check_all_done(num_ranks: int, module: str, *arguments: str) -> None:
    """Runs a module that says "rank R is done" in the end."""
    ran = run_ranks_of(num_ranks, module, *arguments)
    assert ran.returncode == 0, ran.stdout
    for rank in range(num_ranks):
        assert "rank {} is done".format(rank) in ran.stdout
