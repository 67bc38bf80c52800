"""Processes end with the one that started them, however that ended; others go on."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from graph_opt.launch.starter_pipe import VARIABLE
from tests.horovod_processes import NEEDS_HOROVOD

REPOSITORY = Path(__file__).resolve().parents[2]
STARTER = """
import os, sys
from graph_opt.launch.rank_group import RankGroup
command = [sys.executable, "-c", sys.argv[1]]
sys.exit(RankGroup(command, [dict(os.environ)] * 2).run())
"""
STARTED = """
import os, signal, subprocess, sys
from graph_opt.launch import starter_pipe
starter_pipe.KILL_SECONDS = 0.2
starter_pipe.end_with_starter()
"""
# Says that it runs, and keeps the pipe open for as long as it does.
RUNS = """
import os, signal
pipe = os.open(os.environ["RUNS"], os.O_WRONLY)
os.write(pipe, b"x")
"""
WAITS = RUNS + "while True: signal.pause()\n"


class Pipe:
    """A named pipe that processes write to."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "pipe"
        os.mkfifo(str(self.path))
        self._reader = os.open(str(self.path), os.O_RDONLY | os.O_NONBLOCK)

    def read(self, seconds: float = 100.0) -> bytes:
        """The next byte; nothing once no process has the pipe open."""
        waiting = select.poll()  # select.select takes no descriptor above 1023
        waiting.register(self._reader, select.POLLIN)
        assert waiting.poll(1000 * seconds), "nothing was written or closed"
        return os.read(self._reader, 1)

    def close(self) -> None:
        os.close(self._reader)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path)
    yield made
    made.close()


def start(folder: Path, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=str(folder),
        env=dict(os.environ, PYTHONPATH=str(REPOSITORY), RUNS=str(folder / "pipe")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    "more",
    [
        "",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n",
        "subprocess.Popen([sys.executable, '-c', {!r}])\n".format(WAITS),
    ],
    ids=["plain", "ignores_sigterm", "has_started_another"],
)
def test_what_a_killed_process_has_started_ends(more: str, tmp_path: Path, pipe: Pipe) -> None:
    process = start(tmp_path, sys.executable, "-c", STARTER, STARTED + more + WAITS)
    for _ in range(4 if "Popen" in more else 2):
        assert pipe.read() == b"x"
    kill(process)
    assert pipe.read() == b""


def test_a_process_that_inherits_the_variable_alone_goes_on(tmp_path: Path) -> None:
    script = STARTED + "import threading; sys.exit(threading.active_count())"
    for text in ("", "7", "7 1", "0 -1", "x y"):
        environment = dict(os.environ, PYTHONPATH=str(REPOSITORY), **{VARIABLE: text})
        done = subprocess.run([sys.executable, "-c", script], env=environment, timeout=100)
        assert done.returncode == 1, text


@pytest.mark.slow
@pytest.mark.parametrize(
    "command, processes",
    [
        pytest.param("run -np 2", 2, marks=NEEDS_HOROVOD),
        pytest.param("check -np 2", 2, marks=NEEDS_HOROVOD),
        ("check", 1),
        ("check --ps 1", 2),
        ("cluster --workers 2", 3),
    ],
)
def test_what_a_killed_command_has_started_ends(
    command: str, processes: int, tmp_path: Path, pipe: Pipe
) -> None:
    (tmp_path / "script.py").write_text(WAITS)
    process = start(tmp_path, sys.executable, "-m", "graph_opt.cli", *command.split(), "script.py")
    for _ in range(processes):
        assert pipe.read() == b"x"
    kill(process)
    assert pipe.read() == b""


@pytest.mark.slow
@NEEDS_HOROVOD
def test_the_ranks_of_a_check_that_is_told_to_end_end(tmp_path: Path, pipe: Pipe) -> None:
    (tmp_path / "script.py").write_text(WAITS)
    check = ["-m", "graph_opt.cli", "check", "-np", "2"]
    process = start(tmp_path, sys.executable, *check, "script.py")
    assert [pipe.read(), pipe.read()] == [b"x", b"x"]
    process.terminate()
    assert pipe.read() == b""
    assert process.wait(timeout=100) == 130


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("how", ["nohup {} &", "setsid {} &", "({} &)"])
def test_what_a_shell_has_started_outlives_the_shell(how: str, tmp_path: Path, pipe: Pipe) -> None:
    go = tmp_path / "go"
    os.mkfifo(str(go))
    (tmp_path / "script.py").write_text(
        RUNS + "open({!r}).read()\nos.write(pipe, b'y')\n".format(str(go))
    )
    command = "{} -m graph_opt.cli run -np 1 script.py".format(sys.executable)
    assert start(tmp_path, "sh", "-c", how.format(command)).wait(timeout=100) == 0
    assert pipe.read() == b"x"
    go.write_text("")
    assert [pipe.read(), pipe.read()] == [b"y", b""]
