"""The processes of `group_lookup`, from the side of who asks them (see `group_lookup_server`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from multiprocessing import connection
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from tools.bench.group_lookup_cases import Size

ANSWER_SECONDS = 240.0
_CLOSE_SECONDS = 20.0
_PEERS = Path("build/peers")  # filled by tools/setup/peers.sh


class PeerError(Exception):
    """A peer that does not do what it was asked: the message says why."""


class Program(NamedTuple):
    """How a peer is started.

    Attributes:
        name: for messages.
        module: has `prepared`.
        python: the interpreter of its environment.
        path: folder put before the interpreter's own modules, or None.
    """

    name: str
    module: str
    python: Path
    path: Optional[Path] = None

    @property
    def is_installed(self) -> bool:
        """Whether tools/setup/peers.sh could install it."""
        return self.python.exists() and (self.path is None or self.path.exists())


_SELF = Path(sys.executable)
STOCK = Program("tensorflow", "tools.bench.group_lookup_stock", _SELF)
FUSED = Program("graph_opt", "tools.bench.group_lookup_fused", _SELF)
FBGEMM = Program("fbgemm", "tools.bench.group_lookup_fbgemm", _PEERS / "fbgemm/bin/python")
TFRA = Program("tfra", "tools.bench.group_lookup_tfra", _SELF, _PEERS / "tfra")
# Ours takes its turn next to FBGEMM, the closest.
PROGRAMS = (STOCK, FUSED, FBGEMM, TFRA)


class Peer:
    """A running process. Ended by `close`; after an error it is of no more use."""

    def __init__(self, program: Program) -> None:
        self._name = program.name
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        # TensorFlow's line on what it is compiled for is read (see instruction_sets.py).
        environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="0")
        # OpenMP's threads spin at barriers otherwise: no faster here, and where anything else runs
        # on the machine a step of FBGEMM then takes 50 to 500 times as long.
        environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        if program.path is not None:
            environment["PYTHONPATH"] = str(program.path.resolve())
        self._process = subprocess.Popen(
            [str(program.python), "-m", "tools.bench.group_lookup_server", program.module],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def prepare(self, size: Size) -> Dict[str, Any]:
        """Makes tables and programs for a size; gives `runs`, `absent` and `instruction_set`."""
        return self._ask(do="prepare", size=list(size))

    def load(self, path: Path) -> None:
        """Takes the ids in a file of NumPy."""
        self._ask(do="load", path=str(path))

    def measure(self, run: str, seconds: float) -> float:
        """Seconds for each batch, over a window of about `seconds`."""
        return float(self._ask(do="measure", run=run, seconds=seconds)["seconds"])

    def release(self) -> None:
        """Gives the memory back."""
        self._ask(do="close")

    def close(self) -> None:
        """Ends the process."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(_CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def _ask(self, **request: Any) -> Dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write((json.dumps(request) + "\n").encode("utf-8"))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(self._last_words()) from None
        # select.select takes no descriptor above 1023.
        ready = connection.wait([self._process.stdout.fileno()], ANSWER_SECONDS)
        if not ready:
            self._process.kill()
            raise PeerError("{} gave no answer in {:.0f} s".format(self._name, ANSWER_SECONDS))
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(self._last_words())
        answer: Dict[str, Any] = json.loads(line.decode("utf-8"))
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        lines: List[str] = self._log.read().strip().splitlines() or ["no word"]
        return "{} ended with status {}: {}".format(
            self._name, self._process.returncode, lines[-1][:300]
        )
