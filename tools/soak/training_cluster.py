"""A training on a cluster whose processes a caller may kill, stop and watch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

_SCRIPT = Path(__file__).resolve().parent / "training_task.py"
_REPOSITORY = Path(__file__).resolve().parents[2]
_CONFIG = _REPOSITORY / "configs" / "async_and_group_embedding.pbtxt"
_TASK = b"GRAPH_OPT_TASK="
_POLL_SECONDS = 0.02


class TrainingCluster:
    """`graph-opt cluster`, which runs `training_task.py`.

    Args:
      folder: Gets checkpoints, notes and logs, and what the launcher prints (`printed`).
      flags: Of `graph-opt cluster`.
      script_flags: Of the script.

    Attributes:
      process: The launcher.
      folder: As given.
    """

    def __init__(
        self, folder: Path, flags: Sequence[str] = (), script_flags: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "graph_opt.cli", "cluster", "--config", str(_CONFIG)]
        command += ["--logs", str(folder / "logs"), *flags, "--", str(_SCRIPT)]
        with open(str(folder / "printed"), "ab") as printed:
            self.process = subprocess.Popen(
                [*command, "--folder", str(folder), *script_flags],
                env=dict(os.environ, PYTHONPATH=str(_REPOSITORY), TF_CPP_MIN_LOG_LEVEL="2"),
                stdout=printed,
                stderr=printed,
            )

    def printed(self) -> str:
        """What the launcher has printed so far."""
        return (self.folder / "printed").read_text("utf-8", "replace")

    def tasks(self) -> Dict[str, int]:
        """Process ids of the tasks that run, by name; that of the proxy as `proxy`."""
        found = {}
        for pid in _children(self.process.pid):
            name = _task_of(pid)
            if name is not None:
                found[name] = pid
        return found

    def signal(self, task: str, number: int) -> int:
        """Sends a signal to a task, and returns its process id."""
        pid = self.tasks()[task]
        os.kill(pid, number)
        return pid

    def kill(self, task: str) -> int:
        """Ends a task as if its machine were lost."""
        return self.signal(task, signal.SIGKILL)

    def used(self, task: str) -> int:
        """How many batches a task has used, in all its processes."""
        stem = "chief_0" if task == "chief" else task.replace(" ", "_")
        files = (self.folder / "batches").glob(stem + ".*")
        return sum(path.read_bytes().count(b"used ") for path in files)

    def wait_for(self, condition: Callable[[], bool], seconds: float, what: str) -> float:
        """Waits until a condition holds; returns the seconds that took.

        Raises:
          TimeoutError: It does not in time, or the launcher ended before.
        """
        start = time.monotonic()
        while not condition():
            ended = self.process.poll()
            if time.monotonic() - start > seconds or ended is not None:
                raise TimeoutError(
                    "{} after {:.0f} s ({}): {}".format(
                        what, seconds, ended, self.printed()[-4000:]
                    )
                )
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - start

    def wait_for_batches(self, task: str, more: int, seconds: float = 120.0) -> float:
        """Waits until a task has used so many more batches; returns the seconds that took."""
        goal = self.used(task) + more
        return self.wait_for(lambda: self.used(task) >= goal, seconds, task + " uses no batches")

    def end_training(self) -> None:
        """Tells the workers to end after their current step."""
        (self.folder / "stop").touch()

    def wait(self, seconds: float) -> int:
        """Waits for the launcher's end; returns its exit code."""
        return self.process.wait(seconds)

    def close(self) -> None:
        """Kills what still runs."""
        for pid in [*_children(self.process.pid), self.process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def processes_of(folder: Path) -> List[int]:
    """Processes whose command names a folder, such as the tasks of a training there."""
    named = str(folder).encode()
    return [pid for pid in _processes() if named in _read("/proc/{}/cmdline".format(pid))]


def is_running(pid: int) -> bool:
    """Whether a process lives; one that has ended, but was not waited for, does not."""
    return _stat(pid)[0] != "Z"


def _children(parent: int) -> List[int]:
    stats = {pid: _stat(pid) for pid in _processes()}
    return [pid for pid, stat in stats.items() if stat[0] != "Z" and int(stat[1]) == parent]


def _processes() -> List[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""  # The process has ended.


def _stat(pid: int) -> List[str]:
    """The fields after the command's name: state, parent, ...; the state is Z once it has ended."""
    fields = _read("/proc/{}/stat".format(pid)).rpartition(b")")[2].split()
    return [field.decode() for field in fields] or ["Z"]


def _task_of(pid: int) -> Optional[str]:
    if b"proxy" in _read("/proc/{}/cmdline".format(pid)).split(b"\0"):
        return "proxy"
    variables = _read("/proc/{}/environ".format(pid)).split(b"\0")
    named = [one[len(_TASK) :] for one in variables if one.startswith(_TASK)]
    return named[0].decode() if named else None
