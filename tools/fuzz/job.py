"""A process that tries some models of one kind."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

from tools.fuzz.notes import PATH_VARIABLE, Notes, python_stacks_path, read_notes
from tools.fuzz.stacks import stacks_of_session

_REPOSITORY = Path(__file__).resolve().parents[2]
_TAIL = 20  # lines of what pytest printed
_START_SECONDS = 600.0  # until the first note


class Work(NamedTuple):
    """What a process is to do.

    Attributes:
      kind: Of the models.
      test: The property, as pytest names it.
      seed: Of the models.
      models: How many.
    """

    kind: str
    test: str
    seed: int
    models: int


class Failure(NamedTuple):
    """What went wrong in a process.

    Attributes:
      work: What it was to do.
      error: What happened.
      example: The decorator that repeats it; empty if it happened in no model.
    """

    work: Work
    error: str
    example: str


class Job:
    """A process that does some work; it has a process group of its own.

    Args:
      work: What it does.
      folder: Gets its notes and what it prints.
      silent_seconds: How long a model may take; then something hangs.
    """

    def __init__(self, work: Work, folder: Path, silent_seconds: float) -> None:
        self.work = work
        self._silent_limit = silent_seconds
        self._hangs = ""
        folder.mkdir()
        self._notes, self._printed = folder / "notes", folder / "printed"
        variables = {PATH_VARIABLE: str(self._notes), **_variables(work)}
        with self._printed.open("wb") as printed:
            self._process = subprocess.Popen(
                [sys.executable, *_arguments(work), "-p", "tools.fuzz.notes", *_QUIET],
                cwd=str(_REPOSITORY),
                env={**os.environ, **variables},
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        """Whether the process has ended, or hangs and was killed."""
        if self._process.poll() is None and self._is_silent():
            self._hangs = self._what_hangs()
            self.kill()
        return self._process.poll() is not None

    def kill(self) -> None:
        """Ends the process, and those that it has started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def notes(self) -> Notes:
        """What it has done so far."""
        return read_notes(self._notes)

    def failure(self, was_stopped: bool = False) -> Optional[Failure]:
        """What went wrong; nothing did in a process that was only stopped."""
        notes, code = self.notes(), self._process.returncode
        if self._hangs:
            return Failure(self.work, self._hangs, notes.example)
        if notes.error:
            return Failure(self.work, notes.error, notes.example)
        if code == 0 or was_stopped:
            return None
        if code > 0:
            return Failure(self.work, "pytest failed:\n" + self._tail(), "")
        return Failure(self.work, "ended by signal {}".format(-code), notes.example)

    def _is_silent(self) -> bool:
        if not self._notes.exists():
            return time.time() - self._printed.stat().st_mtime > _START_SECONDS
        return time.time() - self._notes.stat().st_mtime > self._silent_limit

    def _what_hangs(self) -> str:
        stacks = stacks_of_session(self._process.pid, python_stacks_path(self._notes))
        return "\n".join(["it hangs; it has printed:", self._tail(), "", stacks])

    def _tail(self) -> str:
        return "\n".join(self._printed.read_text("utf-8", "replace").splitlines()[-_TAIL:])


# What hangs is found by its notes.
# What it prints is kept even if it hangs.
_QUIET = ("--no-header", "--capture=no", "-p", "no:cacheprovider", "-p", "no:timeout")


def command_of(work: Work) -> str:
    """A command that does the same in a shell."""
    variables = ["{}={}".format(*pair) for pair in _variables(work).items()]
    words = [os.path.relpath(sys.executable), *_arguments(work)]
    return " ".join([*variables, *map(shlex.quote, words)])


def _variables(work: Work) -> Dict[str, str]:
    return {"FUZZ_EXAMPLES": str(work.models)}


def _arguments(work: Work) -> List[str]:
    path, _, name = work.test.partition("::")
    flags = ["--hypothesis-profile=fuzz", "--hypothesis-seed={}".format(work.seed)]
    return [
        "-m",
        "pytest",
        "-q",
        *flags,
        "{}::{}".format(os.path.relpath(path, str(_REPOSITORY)), name),
    ]
