"""Child processes that end with their owner, and what they cost.

A child is started with a pipe as its standard input and ends when that pipe is closed: by
`ChildProcess.close`, or by the operating system when the owner is gone, however it went. Children
run in a session of their own, so that Ctrl-C reaches only the owner, which can then shut down in
order (last checkpoint first, parameter servers after it).
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
from multiprocessing import connection
from pathlib import Path
from typing import IO, Mapping, Optional, Sequence

START_SECONDS = 120.0  # importing TensorFlow on a loaded machine takes its time
STOP_SECONDS = 5.0
_ERROR_LINES = 15


class ProcessEnded(RuntimeError):
    """A child process did not start or has ended on its own; the message ends with its errors."""


class ChildProcess:
    """A Python module run as a child process that prints a line when it is ready.

    Args:
      label: how messages name the process, for example "parameter server 0".
      module: module to run (`python -m module`).
      arguments: its command line.
      python: the interpreter; None: this one.
      environment: its variables; None: those of this process.
      patience: seconds that it may take for a line.

    Example:
      >>> child = ChildProcess("proxy", "graph_opt.cli", ["proxy", "--delay-ms", "1", ...])
      >>> ports = child.ready_line()
      >>> child.close()
    """

    def __init__(
        self,
        label: str,
        module: str,
        arguments: Sequence[str],
        python: Optional[Path] = None,
        environment: Optional[Mapping[str, str]] = None,
        patience: float = START_SECONDS,
    ) -> None:
        self.label = label
        self._patience = patience
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [str(python or sys.executable), "-m", module, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def ready_line(self) -> str:
        """Waits for the child's next line of output.

        Raises:
          ProcessEnded: the child ended before it wrote one, or wrote none for too long.
        """
        assert self._process.stdout is not None
        # select.select takes no descriptor above 1023.
        readable = connection.wait([self._process.stdout.fileno()], self._patience)
        if not readable:
            raise ProcessEnded(f"{self.label} was not ready within {self._patience:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(timeout=STOP_SECONDS)
            raise ProcessEnded(self._obituary())
        return line.decode().strip()

    def tell(self, line: str) -> None:
        """Writes a line to the child's standard input.

        Raises:
          ProcessEnded: the child has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._process.wait(timeout=STOP_SECONDS)
            raise ProcessEnded(self._obituary()) from None

    def check(self, patience: float = 0.0) -> None:
        """Raises ProcessEnded when the child has ended, waiting up to `patience` seconds."""
        try:
            self._process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            return
        raise ProcessEnded(self._obituary())

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def cpu_seconds(self) -> float:
        """CPU time the child has used so far, user and system; 0 once it has ended."""
        return process_cpu_seconds(self.pid)

    def close(self) -> None:
        """Ends the child: asks by closing its input, then terminates, then kills."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # of what it did not read any more
            self._process.stdin.close()
        for insist in (lambda: None, self._process.terminate, self._process.kill):
            insist()
            try:
                self._process.wait(timeout=STOP_SECONDS)
                break
            except subprocess.TimeoutExpired:
                continue
        self._process.stdout.close()
        self._errors.close()

    def _obituary(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()[-_ERROR_LINES:]
        details = "".join(f"\n    {line}" for line in lines)
        status = self._process.returncode
        return f"{self.label} (pid {self.pid}) ended with exit status {status}{details}"


def own_cpu_seconds() -> float:
    """CPU time of this process so far, user and system, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def process_cpu_seconds(pid: int) -> float:
    """CPU time of another process so far, user and system; 0 where it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command name, in parentheses, may hold spaces: count the fields after it.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_owner() -> None:
    """Blocks until the owner of this process closes its standard input or is gone."""
    sys.stdin.buffer.read()
