"""A process that serves an export: its memory, and that of the tables that it has mapped.

    python -m tools.bench.serving.server FOLDER TAG,TAG LIBRARY REQUEST.npz

For each line of input it prints its memory in bytes. Pages that several processes have in memory
count for each by its part (Pss).
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Dict, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

TABLES = "/graph_opt_tables/"
_LIMIT_SECONDS = 120.0


class Server:
    """Such a process, as a context.

    Args:
        arguments: of the process.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", "tools.bench.serving.server", *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.memory()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: Any) -> None:
        self._process.communicate(timeout=_LIMIT_SECONDS)

    def memory(self) -> Dict[str, int]:
        """Bytes of the process, and of tables in it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: Dict[str, int] = json.loads(self._process.stdout.readline())
        return found


def _memory() -> Dict[str, int]:
    found = {"process": 0, "tables": 0, "resident_tables": 0}
    is_table = False
    with open("/proc/self/smaps", encoding="utf-8") as smaps:
        for line in smaps:
            key, _, rest = line.partition(":")
            if "-" in line.split(" ", 1)[0]:
                is_table = TABLES in line
            elif key == "Pss":
                size = int(rest.split()[0]) << 10
                found["process"] += size
                found["tables"] += size * is_table
            elif key == "Rss" and is_table:
                found["resident_tables"] += int(rest.split()[0]) << 10
    return found


def main(folder: str, tags: str, library: str, request: str) -> None:
    """Serves until its input ends."""
    tf.disable_v2_behavior()
    tf.load_op_library(library)
    with tf.Session() as session, np.load(request, allow_pickle=True) as values:
        meta_graph = tf.saved_model.loader.load(session, tags.split(","), folder)
        signature = meta_graph.signature_def["serving_default"]
        feeds = {signature.inputs[name].name: values[name] for name in values.files}
        fetches = [info.name for info in signature.outputs.values()]
        for _ in sys.stdin:
            session.run(fetches, feeds)
            print(json.dumps(_memory()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
