"""Packs tensors that travel together between two tasks into one.

    sender:    ids_0 .. ids_n  -> ConcatV2 ──────────> SplitV -> ids_0 .. ids_n    receiver
               their row counts -> Pack    ──────────>

These are stock ops, so a parameter server needs nothing of ours. Values do not change: rows are
moved, never added. Two calls replace one per table.
"""

from __future__ import annotations

from typing import AbstractSet, Any, List, NamedTuple, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.transfers.task_transfers import TaskTransfer, TransferKey, task_transfers
from graph_opt.reporting.outcomes import PackedTransfer


class Packing(NamedTuple):
    """The rewrite, and what it packs."""

    rewrite: Rewrite
    packed: Tuple[PackedTransfer, ...]


def pack_transfers(view: GraphView, left_out: AbstractSet[str], scope: str) -> Packing:
    """Packs every group of tensors that can travel together.

    Args:
      view: A graph that has been split, with the static shapes of its tensors.
      left_out: Nodes that do not run any more.
      scope: Name scope for the new nodes.

    Returns:
      The rewrite, which is empty for a graph on a single task.
    """
    nodes: List[Any] = []
    edits = Edits(view)
    packed: List[PackedTransfer] = []
    for number, (key, group) in enumerate(task_transfers(view, left_out).items()):
        pack = _Pack(view, "{}/transfer_{}".format(scope, number), key, group)
        nodes.extend(pack.nodes())
        pack.move_readers(edits)
        packed.append(
            PackedTransfer(key.source, key.target, tf.as_dtype(key.dtype).name, len(group))
        )
    return Packing(edits.rewrite(nodes), tuple(packed))


class _Pack:
    """The nodes of one packed transfer."""

    def __init__(
        self, view: GraphView, scope: str, key: TransferKey, group: List[TaskTransfer]
    ) -> None:
        self._key = key
        self._group = group
        self._parts: List[Tensor] = []
        self._sender = NodeWriter(view, scope, key.source)
        self._receiver = NodeWriter(view, scope, key.target)

    def nodes(self) -> List[Any]:
        """The sender's nodes, then the receiver's."""
        rows = self._row_counts()
        packed = self._concat()
        self._split(packed, rows)
        return self._sender.nodes + self._receiver.nodes

    def move_readers(self, edits: Edits) -> None:
        """Makes every reader on the receiving task read its part of the packed tensor."""
        for part, transfer in zip(self._parts, self._group):
            edits.move(transfer.uses, part)

    def _row_counts(self) -> Tensor:
        sizes = [
            self._sender.call("size_{}".format(i), "Size", input=transfer.tensor).result
            for i, transfer in enumerate(self._group)
        ]
        counts = self._sender.call("sizes", "Pack", values=sizes).result
        width = int(np.prod(self._key.row, dtype=np.int64))
        if width == 1:
            return counts
        divisor = self._sender.constant("row_size", np.int32(width))
        return self._sender.call("row_counts", "FloorDiv", x=counts, y=divisor).result

    def _concat(self) -> Tensor:
        return self._sender.joined("concat", [each.tensor for each in self._group], axis=0)

    def _split(self, packed: Tensor, rows: Tensor) -> None:
        axis = self._receiver.constant("split_axis", np.int32(0))
        split = self._receiver.call(
            "split",
            "SplitV",
            value=packed,
            size_splits=rows,
            split_dim=axis,
            num_split=len(self._group),
        )
        self._parts = split.outputs("output")
