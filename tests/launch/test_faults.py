"""Trainings on a cluster through faults: real processes that are killed and stopped, real cuts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest

from graph_opt.compat import tf
from tools.soak.batch_notes import read_notes, violations
from tools.soak.training_cluster import TrainingCluster, is_running, processes_of

# Servers count as lost if others keep them from answering.
pytestmark = [pytest.mark.slow, pytest.mark.alone]

WORKERS = ["chief", "worker 0"]
STALL_SECONDS = 6
END_SECONDS = 10  # from a fault's own timeout to the end of the workers: 3 to 9
BUSY_SECONDS = 10  # Processes that end need CPU time, and other tests may take most of it.
LARGE = ["--rows", "100000", "--checkpoint-secs", "0.5"]  # checkpoints of 40 MB


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., TrainingCluster]]:
    """Starts a training with two servers and two workers, and sees that nothing outlives it."""
    started: List[TrainingCluster] = []
    pids: List[int] = []

    def make(flags: str = "", script_flags: Any = ()) -> TrainingCluster:
        every = ["--ps", "2", "--workers", "2", *flags.split()]
        started.append(TrainingCluster(tmp_path, every, script_flags))
        for task in WORKERS:
            started[-1].wait_for_batches(task, 20)
        pids.extend(started[-1].tasks().values())
        return started[-1]

    try:
        yield make
        assert [pid for pid in [*pids, *processes_of(tmp_path)] if is_running(pid)] == []
    finally:
        for cluster in started:
            cluster.close()
    found = read_notes(tmp_path / "batches")
    assert [fault for one in found for fault in violations(one)] == []


def goes_on(cluster: TrainingCluster) -> None:
    """Waits until all workers have used many more batches."""
    for task in WORKERS:
        cluster.wait_for_batches(task, 30)


def end(cluster: TrainingCluster) -> None:
    cluster.end_training()
    assert cluster.wait(60) == 0, cluster.printed()


@pytest.mark.parametrize("task", ["worker 0", "ps 1", "chief"])
def test_a_task_that_is_killed_and_started_again(start: Any, task: str) -> None:
    cluster = start("--restarts 1")
    cluster.kill(task)
    goes_on(cluster)
    end(cluster)
    printed = cluster.printed()
    assert "{} was ended by SIGKILL".format(task) in printed
    if task == "ps 1":
        for worker in WORKERS:
            assert "[{}] graph_opt: the session was lost (".format(worker) in printed
            assert "[{}] graph_opt: another session has begun after".format(worker) in printed


def test_without_its_chief_a_cluster_ends(start: Any) -> None:
    cluster = start()
    cluster.kill("chief")
    assert cluster.wait(60) == 128 + signal.SIGKILL
    assert "graph-opt cluster: chief was ended by SIGKILL" in cluster.printed()


def test_connections_that_are_cut_and_mended_and_packets_that_are_lost(start: Any) -> None:
    cluster = start("--delay-ms 0.1")
    for fault, mended in (
        (signal.SIGUSR1, signal.SIGUSR2),
        (signal.SIGSTOP, signal.SIGCONT),
    ):
        cluster.signal("proxy", fault)
        time.sleep(5)  # The fault lasts so long.
        cluster.signal("proxy", mended)
        goes_on(cluster)
    end(cluster)


@pytest.mark.parametrize("pipelined", ["false", "true"])
@pytest.mark.parametrize("fault", [signal.SIGUSR1, signal.SIGSTOP])
def test_a_network_that_fails_for_ever_ends_training_with_one_error(
    start: Any, fault: int, pipelined: str
) -> None:
    options = "--set stall_seconds={} --set pipeline_dense={}".format(STALL_SECONDS, pipelined)
    cluster = start("--delay-ms 0.1 " + options)
    workers = [cluster.tasks()[task] for task in WORKERS]
    proxy = cluster.signal("proxy", fault)
    cluster.wait_for(
        lambda: not any(map(is_running, workers)),
        STALL_SECONDS + END_SECONDS + BUSY_SECONDS,
        "workers have not ended",
    )
    with contextlib.suppress(ProcessLookupError):
        os.kill(proxy, signal.SIGCONT)  # One that is stopped ends only when it is killed.
    assert cluster.wait(30) == 1
    last = cluster.printed().splitlines()[-1]
    assert "DeadlineExceededError: /job:ps/task:0, /job:ps/task:1 have not answered for" in last
    assert "start it again; training then goes on from the last checkpoint" in last


def test_a_server_that_is_stopped_for_a_while_or_slow(start: Any) -> None:
    cluster = start()
    cluster.signal("ps 0", signal.SIGSTOP)
    time.sleep(20)  # The fault lasts so long.
    cluster.signal("ps 0", signal.SIGCONT)
    goes_on(cluster)
    over = threading.Event()

    def run_for_a_hundredth_of_the_time() -> None:
        while not over.wait(0.002):
            cluster.signal("ps 0", signal.SIGSTOP)
            over.wait(0.2)
            cluster.signal("ps 0", signal.SIGCONT)

    slow = threading.Thread(target=run_for_a_hundredth_of_the_time)
    slow.start()
    try:
        for task in WORKERS:
            cluster.wait_for_batches(task, 5)
    finally:
        over.set()
        slow.join()
    end(cluster)
    assert "was lost" not in cluster.printed()


def test_a_worker_whose_input_ends_before_that_of_others(start: Any) -> None:
    cluster = start(script_flags=["--short", "worker_0", "--short-batches", "60"])
    cluster.wait_for(lambda: "[worker 0] trained" in cluster.printed(), 120, "worker 0 goes on")
    cluster.wait_for_batches("chief", 60)
    assert cluster.used("worker 0") == 60
    end(cluster)


def whole_checkpoint(cluster: TrainingCluster) -> int:
    """The step of the checkpoint from which training would go on, which is read whole."""
    reader = tf.train.load_checkpoint(str(cluster.folder / "model"))
    for name in reader.get_variable_to_shape_map():
        reader.get_tensor(name)
    return int(reader.get_tensor("global_step"))


def wait_for_part_of_checkpoint(cluster: TrainingCluster) -> None:
    folder = cluster.folder / "model"
    cluster.wait_for(
        lambda: (folder / "checkpoint").exists() and any(folder.glob("*_temp*/*")), 120, "no part"
    )


def test_sigterm_during_a_checkpoint_leaves_the_one_before(start: Any) -> None:
    cluster = start(script_flags=LARGE)
    wait_for_part_of_checkpoint(cluster)
    cluster.process.send_signal(signal.SIGTERM)
    assert cluster.wait(30) == 128 + signal.SIGTERM
    step = whole_checkpoint(cluster)
    cluster = start(script_flags=LARGE)
    end(cluster)
    assert whole_checkpoint(cluster) > step


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of limited size, for checkpoints."""
    folder = tmp_path / "model"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1g", "none", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip("no file system of limited size: " + mounted.stderr.strip())
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> None:
    with contextlib.suppress(OSError), open(str(folder / "other"), "wb", buffering=0) as other:
        while True:
            other.write(bytes(1 << 20))


def test_a_disk_that_is_full_during_a_checkpoint(disk: Path, start: Any) -> None:
    cluster = start(script_flags=LARGE)
    step = whole_checkpoint(cluster)
    fill(disk)
    assert cluster.wait(60) == 1
    causes = [line for line in cluster.printed().splitlines() if "chief ended with exit" in line]
    assert len(causes) == 1 and "No space left on device" in causes[0], cluster.printed()
    assert whole_checkpoint(cluster) >= step
