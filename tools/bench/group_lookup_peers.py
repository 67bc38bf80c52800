"""The processes of `group_lookup`, from the side of who asks them (see `group_lookup_server`)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Dict, NamedTuple, Optional

from tools.bench.cluster.processes import ChildProcess, ProcessEnded
from tools.bench.group_lookup_cases import Size

ANSWER_SECONDS = 240.0
_WORDS_LENGTH = 400
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
        # TensorFlow's line on what it is compiled for is read (see instruction_sets.py).
        environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="0")
        # OpenMP's threads spin at barriers otherwise: no faster here, and where anything else runs
        # on the machine a step of FBGEMM then takes 50 to 500 times as long.
        environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        if program.path is not None:
            environment["PYTHONPATH"] = str(program.path.resolve())
        module, arguments = "tools.bench.group_lookup_server", [program.module]
        self._child = ChildProcess(
            program.name, module, arguments, program.python, environment, ANSWER_SECONDS
        )
        self.close = self._child.close

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

    def _ask(self, **request: Any) -> Dict[str, Any]:
        try:
            self._child.tell(json.dumps(request))
            answer: Dict[str, Any] = json.loads(self._child.ready_line())
        except ProcessEnded as error:
            first, *more = str(error).splitlines()
            words = ": ".join([first, *(line.strip() for line in more[-1:])])
            raise PeerError(words[:_WORDS_LENGTH]) from None
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer
