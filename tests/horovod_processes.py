"""Programs that Horovod starts as ranks on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NEEDS_HOROVOD = pytest.mark.horovod  # `make test-horovod` runs these with any TensorFlow
GLOO, MPI = "gloo", "mpi"
_REPOSITORY = Path(__file__).resolve().parents[1]
_SECONDS_TO_END = 60.0


def be_started_by(launcher: str) -> None:
    """Hides the store of the launcher from this rank, after `hvd.init()`, unless that is `GLOO`."""
    if launcher == MPI:
        del os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"]


def run_ranks_of(
    num_ranks: int, module: str, *arguments: str, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Runs a module of the tests on so many ranks; their output comes as one text."""
    launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", str(num_ranks), "--gloo"]
    command = [*launcher, sys.executable, "-m", module, *arguments]
    with subprocess.Popen(
        command,
        cwd=str(_REPOSITORY),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.terminate()  # The launcher ends its ranks; killed, it would leave them running.
            printed, _ = process.communicate(timeout=_SECONDS_TO_END)
            raise AssertionError(
                "still running after {:g} s:\n{}".format(timeout, printed)
            ) from None
    return subprocess.CompletedProcess(command, process.returncode, printed)


def check_all_done(num_ranks: int, module: str, *arguments: str) -> None:
    """Runs a module that says "rank R is done" in the end."""
    ran = run_ranks_of(num_ranks, module, *arguments)
    assert ran.returncode == 0, ran.stdout
    for rank in range(num_ranks):
        assert "rank {} is done".format(rank) in ran.stdout
