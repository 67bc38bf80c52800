"""FBGEMM's table-batched embedding on the CPU, for `group_lookup`; runs where PyTorch is installed.

Forward calls the operator itself: PyTorch's module around it costs some 60 microseconds of Python.
Training is the module, as its users write it, with its row-wise Adagrad, which keeps one number of
state for each row where TensorFlow's Adagrad keeps a row.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any, Iterator, List

import numpy as np
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    SplitTableBatchedEmbeddingBagsCodegen,
)

from tools.bench.fbgemm_path import FbgemmPath, fbgemm_path
from tools.bench.group_lookup_cases import FORWARD, LEARNING_RATE, TRAIN, Size
from tools.bench.group_lookup_server import Prepared, Run

_FLOAT32 = 0  # SparseType.FP32 as the operator's argument


class Lookups:
    """The tables and the batches."""

    def __init__(self, size: Size) -> None:
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        table = (size.rows, size.dimension, EmbeddingLocation.HOST, ComputeDevice.CPU)
        self._module = SplitTableBatchedEmbeddingBagsCodegen(
            [table] * size.tables,
            optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
            learning_rate=LEARNING_RATE,
            pooling_mode=PoolingMode.MEAN,
        )
        self._module.init_embedding_weights_uniform(-0.1, 0.1)
        self._offsets = torch.arange(size.tables * size.batch + 1) * size.ids_per_row
        self._above = torch.rand(size.batch, size.tables * size.dimension)
        self._ids: List[torch.Tensor] = []

    def load(self, ids: np.ndarray) -> None:
        """Takes ids [batches, tables, ids]."""
        self._ids = [torch.from_numpy(batch.reshape(-1).copy()) for batch in ids]

    def forward(self, number: int) -> Any:
        """Pooled rows of one batch."""
        module = self._module
        return _pooled(
            module.weights_host,
            module.weights_offsets,
            module.D_offsets,
            module.total_D,
            module.hash_size_cumsum,
            self._ids[number],
            self._offsets,
        )

    def train(self, number: int) -> None:
        """Forward, backward and update with one batch."""
        self._module(self._ids[number], self._offsets).backward(self._above)


def _pooled(*tables_and_batch: Any) -> Any:
    return torch.ops.fbgemm.split_embedding_codegen_forward_cpu(
        *tables_and_batch, PoolingMode.MEAN.value, None, _FLOAT32
    )


def _pooled_from_one_table(weights: Any, ids: Any, offsets: Any) -> Any:
    rows, dimension = weights.shape
    first, widths = torch.zeros(1, dtype=torch.int64), torch.tensor([0, dimension])
    return _pooled(
        weights.flatten(), first, widths.int(), dimension, torch.tensor([0, rows]), ids, offsets
    )


@functools.lru_cache(maxsize=None)
def _path() -> FbgemmPath:
    return fbgemm_path(torch.no_grad()(_pooled_from_one_table))


@contextlib.contextmanager
def prepared(size: Size) -> Iterator[Prepared]:
    """Forward without, training with the record that gradients need; neither by a slow path."""
    path = _path()
    if path.fault is not None:
        absent = {"fbgemm " + one: path.fault for one in (FORWARD, TRAIN)}
        yield Prepared(lambda ids: None, {}, absent, path.instruction_set)
        return
    lookups = Lookups(size)
    runs = {
        "fbgemm " + FORWARD: Run(torch.no_grad()(lookups.forward), 1),
        "fbgemm " + TRAIN: Run(lookups.train, 1),
    }
    yield Prepared(lookups.load, runs, {}, path.instruction_set)
