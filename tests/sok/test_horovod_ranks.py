"""Processes that reach each other through Horovod."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graph_opt.sharding.transport import OneRank
from tests.sharding.test_exporting import export_on, served

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None, reason="Horovod is not installed: make horovod"
)
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_ranks_of_horovod_train_and_export_as_one_process(num_ranks: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(num_ranks), "--gloo"]
    ran = subprocess.run(
        [*command, sys.executable, "-m", "tests.sok.horovod_ranks", str(tmp_path)],
        cwd=str(REPOSITORY),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout
    for rank in range(num_ranks):
        assert "rank {} is done".format(rank) in ran.stdout
    alone = export_on(OneRank(), str(tmp_path / "alone"))
    np.testing.assert_allclose(served(str(tmp_path / "served")), alone, rtol=1e-5)
