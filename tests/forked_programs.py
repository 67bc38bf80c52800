"""Programs that need a process of their own, but not one that imports TensorFlow itself.

They are forked from a process that has imported it, which saves seconds. What happens at the import
or at the interpreter's end must be tested in a process of `subprocess`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple, Tuple

from tests.session.parameter_servers import start_process


class Ended(NamedTuple):
    """What a program printed, and its exit code."""

    stdout: str
    stderr: str
    returncode: int


def run_forked(program: str, folder: Path, *arguments: str, timeout: float = 300.0) -> Ended:
    """Runs a program, and waits for its end.

    Args:
      program: Its source.
      folder: Where its output is kept.
      *arguments: `sys.argv[1:]`.
      timeout: Seconds until it is killed, and the test fails.
    """
    outputs = folder / "stdout", folder / "stderr"
    process = start_process(_execute, program, arguments, [str(path) for path in outputs])
    process.join(timeout)
    if process.is_alive():
        process.kill()
        raise AssertionError("still running: " + outputs[1].read_text("utf-8"))
    printed = [path.read_text("utf-8") for path in outputs]
    return Ended(printed[0], printed[1], int(process.exitcode))


def _execute(program: str, arguments: Tuple[str, ...], outputs: Tuple[str, str]) -> None:
    for stream, path in zip((1, 2), outputs):
        with open(path, "w") as file:
            os.dup2(file.fileno(), stream)
    sys.argv = ["-c", *arguments]
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
    sys.stdout.flush()
