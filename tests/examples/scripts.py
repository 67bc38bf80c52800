"""Running the examples as a stranger does: copied elsewhere, and each in a process of its own."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence

import tensorflow.compat.v1 as tf

from tests.processes import start_process

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LIMIT_SECONDS = 300


class Started:
    """A process that runs an example for each of several command lines, one after the other.

    Args:
      name: Of the example's file.
      folder: Where the example is copied to, and runs.
      command_lines: Arguments, separated by blanks.
      environment: Variables that the process has besides its own.
    """

    def __init__(
        self, name: str, folder: Path, command_lines: Sequence[str], **environment: str
    ) -> None:
        self._outputs = [folder / "output_{}".format(i) for i in range(len(command_lines))]
        script = folder / "{}.py".format(name)
        shutil.copy(str(EXAMPLES / script.name), str(script))
        arguments = [line.split() for line in command_lines]
        paths = [str(path) for path in self._outputs]
        self.process: Any = start_process(_run_each, str(script), arguments, paths, environment)

    def printed(self) -> List[str]:
        """What each command line printed, once all of them have ended well."""
        assert self.status() == 0, self._last_output()
        return [path.read_text("utf-8") for path in self._outputs]

    def failure(self) -> str:
        """What was printed by the command line that failed."""
        assert self.status() == 1
        return self._last_output()

    def status(self) -> int:
        """The exit code."""
        self.process.join(LIMIT_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            raise AssertionError("still running: " + self._last_output())
        return int(self.process.exitcode)

    def _last_output(self) -> str:
        return [path.read_text("utf-8") for path in self._outputs if path.exists()][-1]


def _run_each(
    script: str, arguments: List[List[str]], outputs: List[str], environment: Dict[str, str]
) -> None:
    os.environ.update(environment)
    os.chdir(os.path.dirname(script))
    for each, output in zip(arguments, outputs):
        with open(output, "w") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        sys.argv = [script, *each]
        with tf.Graph().as_default():
            runpy.run_path(script, run_name="__main__")
        sys.stdout.flush()
