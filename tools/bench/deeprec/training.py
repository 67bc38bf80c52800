"""A script that trains in a process of its own, a turn at a time."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Type

from tools.bench.deeprec.turn_hook import END, WORD

REPOSITORY = Path(__file__).resolve().parents[3]
LIMIT_SECONDS = 600.0
_LAST_LINES = 20


class TrainingFailed(RuntimeError):
    """The script ended before its time; the message ends with what it said."""


class Turn(NamedTuple):
    """Wall and CPU seconds of a step, of those that were timed."""

    seconds: float
    cpu_seconds: float


class Training:
    """A script under way; it is killed where `with` ends before the script does.

    Args:
      label: What messages call it.
      arguments: Of the interpreter: how to run it, the script, and its flags.
      folder: Its working directory, new or empty.

    Raises:
      TrainingFailed: By any method: it ended too early, or took too long.
    """

    def __init__(self, label: str, arguments: Sequence[str], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._label = label
        self._errors = folder / "stderr"
        self._printed: List[str] = []
        environment = dict(os.environ, PYTHONPATH=str(REPOSITORY))
        environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        with self._errors.open("w") as errors:
            self._process: Any = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=str(folder),
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._timer = threading.Timer(LIMIT_SECONDS, self._process.kill)
        self._timer.daemon = True
        self._timer.start()

    def __enter__(self) -> Training:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._timer.cancel()
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):  # of what it did not read any more
            self._process.stdin.close()
        self._process.stdout.close()

    def turn(self, before: int, timed: int) -> Turn:
        """Trains `before` steps, then times `timed` more."""
        try:
            self._tell("{} {} {}".format(WORD, before, timed))
        except BrokenPipeError:
            raise self._failure() from None
        for line in self._process.stdout:
            if line.startswith(WORD + " "):
                _, seconds, cpu_seconds = line.split()
                return Turn(float(seconds) / timed, float(cpu_seconds) / timed)
            self._printed.append(line)
        raise self._failure()

    def finish(self) -> Dict[str, str]:
        """Lets it train to its end; returns what it printed as `NAME = VALUE`."""
        with contextlib.suppress(BrokenPipeError):  # it may have no steps left
            self._tell(END)
        self._printed.extend(self._process.stdout)
        if self._process.wait():
            raise self._failure()
        pairs = [line.partition(" = ") for line in self._printed]
        return {name: value.strip() for name, equals, value in pairs if equals}

    def _tell(self, line: str) -> None:
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _failure(self) -> TrainingFailed:
        self._process.wait()
        said = self._errors.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
        words = "{} ended with exit code {}: {}"
        return TrainingFailed(words.format(self._label, self._process.returncode, "\n".join(said)))
