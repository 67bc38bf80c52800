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
from graph_opt.graph.rewrite import InputEdit, Rewrite
from graph_opt.graph.view import GraphView, TensorRef, shape_proto
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.transfers.task_transfers import TaskTransfer, TransferKey, task_transfers
from graph_opt.reporting.outcomes import PackedTransfer

_INT32 = tf.int32.as_datatype_enum


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
    edits: List[InputEdit] = []
    packed: List[PackedTransfer] = []
    for number, (key, group) in enumerate(task_transfers(view, left_out).items()):
        pack = _Pack("{}/transfer_{}".format(scope, number), key, group)
        nodes.extend(pack.nodes())
        edits.extend(pack.edits())
        packed.append(
            PackedTransfer(key.source, key.target, tf.as_dtype(key.dtype).name, len(group))
        )
    return Packing(Rewrite(tuple(nodes), tuple(edits)), tuple(packed))


class _Pack:
    """The nodes of one packed transfer."""

    def __init__(self, scope: str, key: TransferKey, group: List[TaskTransfer]) -> None:
        self._key = key
        self._group = group
        self._scope = scope
        self._sender = NodeWriter(scope, key.source)
        self._receiver = NodeWriter(scope, key.target)

    def nodes(self) -> List[Any]:
        """The sender's nodes, then the receiver's."""
        rows = self._row_counts()
        packed = self._concat()
        self._split(packed, rows)
        return self._sender.nodes + self._receiver.nodes

    def edits(self) -> List[InputEdit]:
        """Every reader on the receiving task reads its part of the packed tensor."""
        return [
            InputEdit(use.consumer, use.slot, TensorRef(self._scope + "/split", i).input_name)
            for i, transfer in enumerate(self._group)
            for use in transfer.uses
        ]

    def _row_counts(self) -> str:
        sizes = [
            self._sender.node(
                "size_{}".format(i),
                "Size",
                [transfer.tensor.input_name],
                T=tf.AttrValue(type=self._key.dtype),
                out_type=tf.AttrValue(type=_INT32),
            ).name
            for i, transfer in enumerate(self._group)
        ]
        counts = self._sender.node(
            "sizes",
            "Pack",
            sizes,
            N=tf.AttrValue(i=len(sizes)),
            T=tf.AttrValue(type=_INT32),
            axis=tf.AttrValue(i=0),
        )
        width = int(np.prod(self._key.row, dtype=np.int64))
        if width == 1:
            return str(counts.name)
        divisor = self._sender.constant("row_size", np.int32(width))
        rows = self._sender.node(
            "row_counts", "FloorDiv", [counts.name, divisor], T=tf.AttrValue(type=_INT32)
        )
        return str(rows.name)

    def _concat(self) -> str:
        tensors = [transfer.tensor.input_name for transfer in self._group]
        return str(self._sender.joined("concat", tensors, self._key.dtype, axis=0).name)

    def _split(self, packed: str, rows: str) -> None:
        axis = self._receiver.constant("split_axis", np.int32(0))
        shape = shape_proto((None, *self._key.row))
        self._receiver.node(
            "split",
            "SplitV",
            [packed, rows, axis],
            num_split=tf.AttrValue(i=len(self._group)),
            T=tf.AttrValue(type=self._key.dtype),
            Tlen=tf.AttrValue(type=_INT32),
            _output_shapes=tf.AttrValue(
                list=tf.AttrValue.ListValue(shape=[shape] * len(self._group))
            ),
        )
