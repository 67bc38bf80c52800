"""Scripts under plain Python, in processes forked from one that has imported TensorFlow."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

from tests.session.parameter_servers import start_process

LIMIT_SECONDS = 300


def run_plainly(script: Path) -> subprocess.CompletedProcess:
    """What `python SCRIPT` gives, without the seconds that an import of TensorFlow takes."""
    outputs = [script.with_suffix(suffix) for suffix in (".stdout", ".stderr")]
    process = start_process(_run, str(script), *map(str, outputs))
    process.join(LIMIT_SECONDS)
    assert not process.is_alive(), "still running: {}".format(script)
    printed, error = (path.read_text("utf-8") for path in outputs)
    return subprocess.CompletedProcess([str(script)], process.exitcode, printed, error)


def _run(script: str, *outputs: str) -> None:
    for stream, output in enumerate(outputs, 1):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), stream)
    os.chdir(os.path.dirname(script))
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")
    sys.stdout.flush()
