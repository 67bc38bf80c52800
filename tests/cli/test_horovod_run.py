"""`graph-opt run -np`: scripts as real ranks of Horovod."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.horovod_processes import NEEDS_HOROVOD
from tests.json_documents import validated

pytestmark = [pytest.mark.slow, NEEDS_HOROVOD]
REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = """
import os, signal, sys
import horovod.tensorflow as hvd
import sparse_operation_kit as sok
import tensorflow as tf

hvd.init()
sok.init()
assert sok.num_gpus() == hvd.size()
total = hvd.allreduce(tf.random_uniform([]) * 0 + hvd.rank(), op=hvd.Sum, name="total")
with tf.Session() as session:
    for step in range(1000 if sys.argv[1:] else 3):
        value = session.run(total)
        if sys.argv[1:] and step == 3 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
print(sys.argv, __name__, value, os.environ["HOROVOD_CYCLE_TIME"])
"""


def run(
    num_ranks: int, folder: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(SCRIPT)
    launched = ["-m", "graph_opt.cli", "run", "-np", str(num_ranks), "--sok"]
    command = [sys.executable, *launched, *arguments]
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY), **variables)
    return subprocess.run(
        command, cwd=str(folder), env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_ranks_train_and_leave_one_report(num_ranks: int, tmp_path: Path) -> None:
    done = run(num_ranks, tmp_path, "--report", "all.json", "-m", "script")
    assert done.returncode == 0, done.stderr
    total = float(sum(range(num_ranks)))
    printed = "{} __main__ {} 0.1".format([str(tmp_path / "script.py")], total)
    expected = ["[{}] {}".format(rank, printed) for rank in range(num_ranks)]
    assert sorted(done.stdout.splitlines()) == expected
    first = done.stderr.splitlines()[0]
    assert "{} ranks".format(num_ranks) in first
    assert "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=600" in first
    processes = validated((tmp_path / "all.json").read_text())["processes"]
    assert [process["rank"] for process in processes] == list(range(num_ranks))
    assert "[1] graph-opt run" not in done.stderr  # what holds for all is said once
    assert done.stderr.count("gradients of divided tables are summed") == 1


def test_a_killed_rank_ends_all(tmp_path: Path) -> None:
    done = run(4, tmp_path, "script.py", "kill", HOROVOD_CYCLE_TIME="0.5")
    assert done.returncode == 137
    assert "HOROVOD_CYCLE_TIME=0.5" in done.stderr.splitlines()[0]
    assert "rank 1 was ended by SIGKILL" in done.stderr.splitlines()[-1]
