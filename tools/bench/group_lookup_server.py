"""One process of `group_lookup`: measures when it is told to, and is idle otherwise.

    python -m tools.bench.group_lookup_server tools.bench.group_lookup_fbgemm

Each line of its input is a request in JSON, each line of its output the answer:

    {"do": "prepare", "size": [26, 200000, 16, 512, 1]}           {"runs": ["fbgemm forward", ...],
                                                                   "instruction_set": "AVX2", ...}
    {"do": "load", "path": "ids.npy"}                             {}
    {"do": "measure", "run": "fbgemm forward", "seconds": 0.3}    {"seconds": 0.00024}
    {"do": "close"}                                               {}

An answer `{"error": "..."}` says what went wrong; then the next request may follow.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional

import numpy as np

from tools.bench.group_lookup_cases import Size

_ERROR_LENGTH = 300


class Run(NamedTuple):
    """What is timed.

    Attributes:
        call: looks up `batches` batches from the one with this number on.
        batches: how many.
    """

    call: Callable[[int], object]
    batches: int


class Prepared(NamedTuple):
    """An implementation with its tables in memory.

    Attributes:
        load: takes the ids, [batches, tables, ids].
        runs: by label, "IMPLEMENTATION PASS".
        absent: by label, why there is no such run.
        instruction_set: the vector instructions that it runs.
    """

    load: Callable[[np.ndarray], object]
    runs: Dict[str, Run]
    absent: Dict[str, str]
    instruction_set: str


class Server:
    """Answers requests; `module` has `prepared(size)`, a context that gives a `Prepared`."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._stack = contextlib.ExitStack()
        self._prepared: Optional[Prepared] = None
        self._size: Optional[Size] = None
        self._next = 0

    def answer(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """What one request gives."""
        kind = request["do"]
        if kind == "prepare":
            return self._prepare(Size(*request["size"]))
        if kind == "close":
            self._stack.close()
            self._prepared = None
            return {}
        assert self._prepared is not None
        if kind == "load":
            self._prepared.load(np.load(request["path"]))
            return {}
        return {"seconds": self._measure(self._prepared.runs[request["run"]], request["seconds"])}

    def _prepare(self, size: Size) -> Dict[str, Any]:
        self._stack.close()  # the tables of the last size make room
        self._size = size
        self._next = 0
        self._prepared = prepared = self._stack.enter_context(self._module.prepared(size))
        return {
            "runs": list(prepared.runs),
            "absent": prepared.absent,
            "instruction_set": prepared.instruction_set,
        }

    def _measure(self, run: Run, seconds: float) -> float:
        """Seconds for each batch, over a window that ends with the first call after `seconds`."""
        assert self._size is not None
        calls = 0
        start = now = time.perf_counter()
        while calls == 0 or now - start < seconds:
            # A call takes consecutive batches, so it must begin where enough of them follow.
            if self._next + run.batches > self._size.batches:
                self._next = 0
            run.call(self._next)
            self._next += run.batches
            calls += 1
            now = time.perf_counter()
        return (now - start) / (calls * run.batches)


def main() -> None:
    """Serves the module named until the input ends."""
    with _answers() as tell:
        server = Server(importlib.import_module(sys.argv[1]))
        for line in sys.stdin:
            try:
                answer = server.answer(json.loads(line))
            except Exception as error:  # a peer may fail in any way; its reason goes into the file
                words = " ".join(str(error).split())
                answer = {"error": "{}: {}".format(type(error).__name__, words[:_ERROR_LENGTH])}
            tell(json.dumps(answer))
        server.answer({"do": "close"})


@contextlib.contextmanager
def _answers() -> Iterator[Callable[[str], None]]:
    """A way to tell answers; what libraries print to standard output goes to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as file:
        os.dup2(2, 1)

        def tell(answer: str) -> None:
            file.write(answer + "\n")
            file.flush()

        yield tell


if __name__ == "__main__":
    main()
