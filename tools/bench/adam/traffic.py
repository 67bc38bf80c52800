"""The floor of a step with Adam: bytes that it must move, over how fast this machine moves them.

fused    the rows that a batch reads: once by the lookup, and w, m and v there and back
stock    the same rows, and w, m and v of all rows there and back
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.adam.scenarios import ARRAYS
from tools.bench.machine import cores
from tools.bench.training.sessions import STOCK
from tools.bench.workloads.measured import Tables
from tools.bench.workloads.workload import Workload, next_batch

COPIED_BYTES = 1 << 28  # more than caches hold
COPY_SECONDS = 0.15
_ROW_READERS = ("Gather", "GatherV2", "ResourceGather")
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")
_BATCHES = 8


class Traffic(NamedTuple):
    """What the floors follow from.

    Attributes:
        rows: rows of all tables that a batch reads, each counted once.
        tables: the tables.
        bytes_per_s: what all cores together read and write, for each round.
    """

    rows: float
    tables: Tables
    bytes_per_s: Sequence[float]

    def bytes_per_step(self, mode: str) -> float:
        """The fewest bytes that a step of a mode moves for its tables."""
        read = self.rows * 4 * self.tables.width
        there_and_back = 2 * ARRAYS
        if mode == STOCK:
            return read + there_and_back * self.tables.bytes
        return read + there_and_back * read

    def seconds(self, mode: str) -> float:
        """The floor of a mode's step."""
        return self.bytes_per_step(mode) / statistics.median(self.bytes_per_s)


def rows_per_step(workload: Workload, batches: int = _BATCHES) -> float:
    """Rows of all tables that a batch reads, each counted once: a mean over some batches."""
    with tf.Graph().as_default() as graph:
        workload.logits(*next_batch(workload.training_batches()))
        ids = [op.inputs[1] for op in graph.get_operations() if _reads_rows(op)]
        counts = [tf.size(tf.unique(tf.reshape(each, [-1]))[0]) for each in ids]
        with tf.Session() as session:
            step = session.make_callable(tf.add_n(counts))
            return statistics.mean(float(step()) for _ in range(batches))


class MemoryCopy:
    """Arrays that are copied by all cores at once, to see how fast memory is."""

    def __init__(self, size: int = COPIED_BYTES) -> None:
        each = size // cores()
        self._pairs = [(np.ones(each, np.uint8), np.ones(each, np.uint8)) for _ in range(cores())]

    def bytes_per_s(self, seconds: float = COPY_SECONDS) -> float:
        """Bytes read and written a second, over a window of about so many seconds."""
        copied: List[int] = [0] * len(self._pairs)

        def copy(number: int, end: float) -> None:
            target, source = self._pairs[number]
            while copied[number] == 0 or time.perf_counter() < end:
                np.copyto(target, source)
                copied[number] += 2 * source.nbytes

        start = time.perf_counter()
        numbers = range(len(self._pairs))
        threads = [threading.Thread(target=copy, args=(n, start + seconds)) for n in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(copied) / (time.perf_counter() - start)


def _reads_rows(op: tf.Operation) -> bool:
    """Whether an op reads rows of a variable, as lookups of SparseTensors and of plain ids do."""
    if op.type not in _ROW_READERS and not op.type.startswith("SparseSegment"):
        return False
    source: Optional[Any] = op.inputs[0].op
    while source is not None and source.type in ("Identity", "ReadVariableOp"):
        source = source.inputs[0].op
    return source is not None and source.type in _VARIABLES
