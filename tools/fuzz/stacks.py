"""What the threads of a process that hangs, and of those that it has started, are doing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import List

_PROC = Path("/proc")
_GDB = ("-batch", "-nx", "-ex", "set pagination off", "-ex", "set backtrace limit 30")
_GDB_SECONDS = 180  # It reads the symbols of TensorFlow.
_PYTHON_SECONDS = 10.0
_POLL_SECONDS = 0.1


def stacks_of_session(leader: int, python: Path) -> str:
    """The stacks of all threads of a process and of those that it has started.

    Args:
      leader: The process, which leads a session of its own.
      python: Where it writes its Python stacks when it gets SIGUSR1; it makes the file when it is
        ready for that.
    """
    texts = ["Python stacks of process {}:\n{}".format(leader, _python_stacks(leader, python))]
    for process in sorted(_processes_of(leader)):
        texts.append("process {}: {}\n{}".format(process, _command(process), _native(process)))
    return "\n\n".join(text.rstrip() for text in texts)


def _python_stacks(process: int, path: Path) -> str:
    if not path.exists():
        return "it has not begun"
    before = path.stat().st_size
    os.kill(process, signal.SIGUSR1)
    until, size = time.monotonic() + _PYTHON_SECONDS, before
    while time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        last, size = size, path.stat().st_size
        if before < last == size:
            break
    return path.read_bytes()[before:].decode("utf-8", "replace")


def _processes_of(session: int) -> List[int]:
    found = []
    for entry in _PROC.glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == session:
                found.append(int(entry.name))
        except ProcessLookupError:
            continue  # It has ended.
    return found


def _command(process: int) -> str:
    words = _read(_PROC / str(process) / "cmdline").split("\0")
    return " ".join(words).strip()


def _native(process: int) -> str:
    gdb = shutil.which("gdb")
    if gdb is None:
        return "gdb is not installed; its threads:\n" + _threads(process)
    command = [gdb, "-p", str(process), *_GDB, "-ex", "thread apply all bt"]
    try:
        text = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_GDB_SECONDS,
        ).stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        text = "gdb has not ended in {} s".format(_GDB_SECONDS)
    if "\n#0" in text:
        return text[text.index("\nThread ") + 1 :] if "\nThread " in text else text
    return "{}\nits threads:\n{}".format(text.strip(), _threads(process))


def _threads(process: int) -> str:
    """Of each thread its name, its state and where in the kernel it waits."""
    lines = []
    for entry in sorted((_PROC / str(process) / "task").glob("*")):
        state = _read(entry / "stat").rpartition(")")[2].split()[:1]
        words = [entry.name, _read(entry / "comm").strip(), *state, _read(entry / "wchan")]
        lines.append(" ".join(words))
    return "\n".join(lines)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:  # It has ended, or is another user's.
        return ""
