"""`graph-opt run -np`: scripts as real ranks of Horovod."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.horovod_processes import NEEDS_HOROVOD

pytestmark = [pytest.mark.slow, NEEDS_HOROVOD]
REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = """
import os, signal, sys
import horovod.tensorflow as hvd
import sparse_operation_kit as sok
import tensorflow as tf

hvd.init()
sok.init()
assert sok.num_gpus() == 2
total = hvd.allreduce(tf.random_uniform([]) * 0 + hvd.rank(), op=hvd.Sum, name="total")
with tf.Session() as session:
    for step in range(1000 if sys.argv[1:] else 3):
        value = session.run(total)
        if sys.argv[1:] and step == 3 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
print(sys.argv, __name__, value, os.environ["HOROVOD_CYCLE_TIME"])
"""


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "graph_opt.cli", "run", "-np", "2", "--sok", *arguments]
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY), **variables)
    return subprocess.run(
        command, cwd=str(folder), env=environment, capture_output=True, text=True, timeout=300
    )


def test_ranks_train_and_leave_one_report(tmp_path: Path) -> None:
    done = run(tmp_path, "--report", "all.json", "-m", "script")
    assert done.returncode == 0, done.stderr
    printed = str([str(tmp_path / "script.py")]) + " __main__ 1.0 0.1"
    assert sorted(done.stdout.splitlines()) == ["[0] " + printed, "[1] " + printed]
    first = done.stderr.splitlines()[0]
    assert "2 ranks" in first and "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=600" in first
    processes = json.loads((tmp_path / "all.json").read_text())["processes"]
    assert [process["rank"] for process in processes] == [0, 1]
    assert "[1] graph-opt run" not in done.stderr  # what holds for all is said once


def test_a_killed_rank_ends_all(tmp_path: Path) -> None:
    done = run(tmp_path, "script.py", "kill", HOROVOD_CYCLE_TIME="0.5")
    assert done.returncode == 137
    assert "HOROVOD_CYCLE_TIME=0.5" in done.stderr.splitlines()[0]
    assert "rank 1 was ended by SIGKILL" in done.stderr.splitlines()[-1]
