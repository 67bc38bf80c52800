"""How fast this machine reads rows at random: the floor of `group_lookup`.

`random_rows.cc` is compiled for this machine and run for each round.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Optional

from tools.bench.group_lookup_cases import Size
from tools.bench.machine import cores

_SOURCE = Path(__file__).with_name("random_rows.cc")
_COMPILERS = ("c++", "g++", "clang++")
_LIMIT_SECONDS = 60.0


class FloorError(Exception):
    """The floor cannot be measured: the message says why."""


class RandomRows:
    """The compiled program, in a folder that `close` removes."""

    def __init__(self) -> None:
        compiler = _compiler()
        if compiler is None:
            raise FloorError("no C++ compiler among {}".format(", ".join(_COMPILERS)))
        self._folder = tempfile.TemporaryDirectory()
        self._program = Path(self._folder.name) / "random_rows"
        flags = ["-O3", "-march=native", "-std=c++17", "-pthread"]
        command = compiler.split() + flags + [str(_SOURCE), "-o", str(self._program)]
        subprocess.run(command, timeout=_LIMIT_SECONDS, check=True)

    def rows_per_s(self, size: Size, seconds: float) -> float:
        """Random rows of all tables that all cores together read in a second."""
        arguments = [size.tables * size.rows, size.row_bytes, cores(), seconds]
        command = [str(self._program)] + [str(argument) for argument in arguments]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, timeout=_LIMIT_SECONDS + seconds, check=True
        )
        return float(done.stdout)

    def close(self) -> None:
        """Removes the program."""
        self._folder.cleanup()


def _compiler() -> Optional[str]:
    if "CXX" in os.environ:
        return os.environ["CXX"]
    return next((name for name in _COMPILERS if shutil.which(name)), None)
