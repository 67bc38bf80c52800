"""The tasks of a cluster as processes: what becomes of the others when one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
LAUNCHER = """
import os, sys
from graph_opt.launch.cluster_group import ClusterGroup, PlacedTask
from graph_opt.launch.cluster_tasks import tasks_of
from graph_opt.launch.started_process import Task
command = [sys.executable, "-u", "-c", sys.argv[1]]
tasks = [
    PlacedTask(place, Task(place.name, command, dict(os.environ, TASK=place.name)), open(log, "wb"))
    for place in tasks_of(1, 2, has_chief=True, has_evaluator=False)
    for log in [place.file_stem + ".log"]
]
sys.exit(ClusterGroup(tasks, restarts=int(sys.argv[2]), patience=0.2).run())
"""
TASK = """
import os, signal, sys, time
task = os.environ["TASK"]
def serve():
    print("serving")
    while True: signal.pause()
"""


def start(script: str, folder: Path, restarts: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, TASK + script, str(restarts)],
        cwd=str(folder),
        env=dict(os.environ, PYTHONPATH=str(REPOSITORY)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(script: str, folder: Path, **arguments: Any) -> subprocess.CompletedProcess[str]:
    process = start(script, folder, **arguments)
    printed, error = process.communicate(timeout=60)
    return subprocess.CompletedProcess([], process.returncode, printed, error)


def test_servers_end_with_the_workers_and_each_task_has_a_log(tmp_path: Path) -> None:
    done = run("if task == 'ps 0': serve()\nprint('trained')\n", tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    trained = {"[chief] trained", "[worker 0] trained"}
    assert trained <= set(done.stdout.splitlines()) <= trained | {"[ps 0] serving"}
    assert (tmp_path / "worker_0.log").read_text() == "trained\n"


def test_a_worker_that_fails_leaves_the_others_at_work(tmp_path: Path) -> None:
    os.mkfifo(str(tmp_path / "failed"))
    done = run(
        "if task == 'ps 0': serve()\n"
        "if task == 'worker 0':\n"
        "    open('failed', 'w').write(str(os.getpid()))\n"
        "    sys.exit('no such row')\n"
        "number = int(open('failed').read())\n"
        "while os.path.exists('/proc/{}'.format(number)): time.sleep(0.01)\n"
        "print('trained')\n",
        tmp_path,
    )
    assert "[chief] trained" in done.stdout and done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "graph-opt cluster: worker 0 ended with exit code 1: no such row"
    )


@pytest.mark.parametrize(
    "gone, what", [("chief", "has failed"), ("ps 0", "has ended before the workers")]
)
def test_without_the_chief_or_a_server_all_are_ended(tmp_path: Path, gone: str, what: str) -> None:
    done = run("if task == {!r}: os._exit(7 * (task == 'chief'))\nserve()\n".format(gone), tmp_path)
    assert done.returncode == (7 if gone == "chief" else 1)
    others = {"chief", "worker 0"} - {gone}
    errors = done.stderr.splitlines()
    assert errors[0] == "graph-opt cluster: {} {}: the others are ended".format(gone, what)
    assert "graph-opt cluster: {} ended with exit code".format(gone) in errors[1]
    assert errors[2].startswith("graph-opt cluster: did not end on their own and were ended: ")
    assert set(errors[2].partition("ended: ")[2].split(", ")) == others


def test_a_task_that_fails_is_started_again(tmp_path: Path) -> None:
    done = run(
        "if task == 'ps 0': serve()\n"
        "if not os.path.exists(task):\n"
        "    open(task, 'w').close(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "print('trained')\n",
        tmp_path,
        restarts=1,
    )
    assert done.returncode == 0 and done.stdout.count("trained") == 2
    assert done.stderr.count("it is started again (1 of 1)") == 2


def test_ctrl_c_reaches_the_servers_after_the_workers(tmp_path: Path) -> None:
    process = start(
        "def told(*_):\n"
        "    os.kill(int(open('ps').read()), 0)\n"
        "    sys.exit(print('the server is there'))\n"
        "if task == 'ps 0':\n"
        "    open('new', 'w').write(str(os.getpid())); os.rename('new', 'ps')\n"
        "else: signal.signal(signal.SIGINT, told)\n"
        "serve()\n",
        tmp_path,
    )
    assert process.stdout is not None
    assert {process.stdout.readline() for _ in range(3)} == {
        "[{}] serving\n".format(task) for task in ("ps 0", "chief", "worker 0")
    }
    process.send_signal(signal.SIGINT)
    printed, error = process.communicate(timeout=60)
    assert printed.count("the server is there") == 2
    assert error == "graph-opt cluster: got SIGINT: all tasks have ended\n"
    assert process.returncode == 130
