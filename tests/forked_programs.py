"""Programs that need a process of their own, but not one that imports TensorFlow itself.

They are forked from a process that has imported it, which saves seconds. What happens at the import
or at the interpreter's end must be tested in a process of `subprocess`.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence

from tests.processes import start_process

LIMIT_SECONDS = 900.0


class Ended(NamedTuple):
    """What a program printed, and its exit code."""

    stdout: str
    stderr: str
    returncode: int


class Forked:
    """A program that was started.

    Args:
      main: What it does; a function of a module.
      arguments: Of this function.
      folder: Its working directory, where its output is kept, too.
      environment: Variables that it has besides those of this process.
    """

    def __init__(
        self,
        main: Callable[..., object],
        arguments: Sequence[Any],
        folder: Path,
        environment: Optional[Dict[str, str]] = None,
    ) -> None:
        self._output = Path(tempfile.mkdtemp(prefix="output_of_", dir=str(folder)))
        variables = dict(os.environ, **(environment or {}))
        place = (str(folder), str(self._output), variables)
        self.process: Any = start_process(_execute, main, tuple(arguments), *place)

    def wait(self, timeout: float = LIMIT_SECONDS) -> Ended:
        """Waits for its end; a program that runs longer is killed, and the test fails."""
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            raise AssertionError("still running: " + self._printed("stderr"))
        return Ended(self._printed("stdout"), self._printed("stderr"), int(self.process.exitcode))

    def _printed(self, stream: str) -> str:
        return (self._output / stream).read_text("utf-8")


def run_forked(
    program: str, folder: Path, *arguments: str, timeout: float = LIMIT_SECONDS
) -> Ended:
    """Runs a program that is given as source, as `python -c` does, and waits for its end."""
    return Forked(_run_source, (program, arguments), folder).wait(timeout)


def run_script(script: Path, folder: Path, *arguments: str) -> Ended:
    """Runs a file in a folder, as `python SCRIPT` does, and waits for its end."""
    return Forked(_run_file, (str(script), arguments), folder).wait()


def start_graph_opt(arguments: Sequence[str], folder: Path, **environment: str) -> Forked:
    """Starts `graph-opt` in a folder."""
    return Forked(_run_graph_opt, (list(arguments),), folder, environment)


def _execute(
    main: Callable[..., object],
    arguments: Sequence[Any],
    folder: str,
    output: str,
    environment: Dict[str, str],
) -> None:
    for stream, name in ((1, "stdout"), (2, "stderr")):
        with open(os.path.join(output, name), "w") as file:
            os.dup2(file.fileno(), stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    try:
        main(*arguments)
    except SystemExit as ended:
        if ended.code is None:  # Which multiprocessing of Python 3.7 takes for a failure.
            sys.exit(0)
        raise
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
    finally:  # As the interpreter ends; processes of `multiprocessing` do not.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()


def _run_source(program: str, arguments: Sequence[str]) -> None:
    sys.argv = ["-c", *arguments]
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})


def _run_file(script: str, arguments: Sequence[str]) -> None:
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def _run_graph_opt(arguments: Sequence[str]) -> None:
    # What the script imports first is TensorFlow, whose package runs again; its modules do not.
    del sys.modules["tensorflow"]
    sys.argv = ["graph-opt", *arguments]
    sys.path.insert(0, os.getcwd())
    from graph_opt.cli.main import main

    sys.exit(main())
