"""Sets and gets a table of 4 GiB on two ranks, and prints how much memory that took.

    python -m tests.distributed_embeddings.large_table FOLDER

The ranks are threads of this process, which so has the whole table in its variables. Memory counts
from the peak of what the process had while the variables were there, and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Dict, List

import numpy as np
from tensorflow.python.eager import context

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import ResourceVariable
from graph_opt.distributed_embeddings.layer_weights import LayerWeights
from graph_opt.distributed_embeddings.placed_tables import PlacedColumns, PlacedTable
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.placement import RowsOnRank
from graph_opt.sharding.transport import Transport

ROWS, WIDTH = 1 << 22, 256
HALF = WIDTH // 2
BLOCK = 1 << 16


class ColumnSlices(LayerWeights):
    """A table of which each of two ranks has half of the columns."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        mine = ResourceVariable(lambda: tf.zeros([ROWS, HALF]))
        self._parts = [
            PlacedColumns(
                RowsOnRank(ROWS, 2, r), r * HALF, HALF, mine if r == transport.rank else None, 0
            )
            for r in range(2)
        ]

    def placed_tables(self) -> List[PlacedTable]:
        return [PlacedTable("table", (ROWS, WIDTH), tf.float32, self._parts)]


def block(first: int) -> np.ndarray:
    """What the table's rows from `first` on hold."""
    rows = np.arange(first, first + BLOCK, dtype=np.float32)[:, np.newaxis]
    return rows + np.arange(WIDTH, dtype=np.float32) / WIDTH


def write(path: Path) -> None:
    """Writes the table's file."""
    with open(path, "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (ROWS, WIDTH)}
        np.lib.format.write_array_header_1_0(file, header)
        for first in range(0, ROWS, BLOCK):
            file.write(block(first).tobytes())


def is_written(path: Path) -> bool:
    """Whether a file holds the table."""
    return all(
        np.array_equal(np.load(path, mmap_mode="r")[first : first + BLOCK], block(first))
        for first in range(0, ROWS, BLOCK)
    )


def peak_bytes() -> int:
    """The most memory that this process has had since `forget_peak`."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10


def forget_peak() -> int:
    """Lets `peak_bytes` start again; returns the memory that the process has."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_bytes()


def main(folder: Path) -> None:
    """Measures, and prints the figures as JSON."""
    source, copy = folder / "source.npy", folder / "copy.npy"
    write(source)
    figures: Dict[str, int] = {"table_bytes": ROWS * WIDTH * 4}
    together = threading.Barrier(2)

    def work(transport: Transport) -> None:
        with context.eager_mode():
            layer = ColumnSlices(transport)
            for name, call in (
                ("set_extra_bytes", lambda: layer.set_weights([source])),
                ("get_extra_bytes", lambda: layer.get_weights(paths=[copy])),
            ):
                together.wait()
                before = forget_peak() if transport.rank == 0 else 0
                together.wait()
                call()
                together.wait()
                if transport.rank == 0:
                    figures[name] = peak_bytes() - before

    run_ranks(2, work)
    figures["is_equal"] = is_written(copy)
    print(json.dumps(figures))
    for path in (source, copy):
        os.remove(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
