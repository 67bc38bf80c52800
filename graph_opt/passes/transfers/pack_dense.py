"""Packs dense weights that a worker reads from a server into one tensor, gradients into another.

    server                                       worker
    W0 .. Wn -> Reshape -> ConcatV2 ───────────> Slice -> Reshape -> W0 .. Wn -> layers
    apply <- G0 .. Gn <- Reshape <- Slice <───── ConcatV2 <- Reshape <- G0 .. Gn <- gradients

TensorFlow sends each of them in a call of its own. These are stock ops, so a server needs nothing
of ours, and values do not change. Reads and updates stay the user's nodes: whoever fetches a
variable, or reads it on its server, sees what it saw before.
"""

from __future__ import annotations

import collections
from typing import Any, Dict, List, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import dtype_size, value_dtype
from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.view import GraphView, Shape
from graph_opt.passes.node_writer import NodeWriter, Operand, free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.transfers.dense_transfers import (
    GRADIENTS,
    WEIGHTS,
    DensePart,
    DenseTransfer,
    dense_transfers,
)
from graph_opt.reporting.outcomes import PackedTransfer
from graph_opt.reporting.tables import counted

_SCOPE = "pack_dense"
_PURPOSE = {WEIGHTS: "", GRADIENTS: " for updates"}
# TensorFlow's slices of a vector share its memory if they start and end at multiples of this.
_ALIGNMENT = 64


def pack_dense(state: PassState, options: SessionOptions) -> PassState:
    """Packs what training steps read from servers, and what they send there for updates."""
    fuses = options.async_embedding is not None or options.group_embedding is not None
    if not (fuses or options.pipeline_dense) or not options.pack_dense_max_bytes:
        return state
    found = dense_transfers(
        state.view,
        state.name_map.not_run,
        options.pack_dense_max_bytes,
        apart=options.pipeline_dense is not None,
    )
    scope = free_scope(state.view, _SCOPE)
    packs = [
        _Pack(state.view, "{}/transfer_{}".format(scope, number), transfer)
        for number, transfer in enumerate(found.transfers)
    ]
    nodes, edits = [node for pack in packs for node in pack.nodes()], Edits(state.view)
    for pack in packs:
        pack.move_readers(edits)
    packed = tuple(_outcome(each) for each in found.transfers)
    return state.rewritten(edits.rewrite(nodes)).reporting(
        *_lines(found.transfers),
        packed_transfers=(*state.report.packed_transfers, *packed),
        not_packed=tuple(each.to_dict() for each in found.refusals),
    )


class _Pack:
    """The nodes of one message."""

    def __init__(self, view: GraphView, scope: str, transfer: DenseTransfer) -> None:
        size = dtype_size(transfer.dtype) or 1
        self._parts: List[DensePart] = sorted(
            transfer.parts, key=lambda part: part.size * size % _ALIGNMENT != 0
        )
        self._sender = NodeWriter(view, scope, transfer.source)
        self._receiver = NodeWriter(view, scope, transfer.target)

    def nodes(self) -> List[Any]:
        """The sender's nodes, then the receiver's."""
        packed = self._concatenated()
        begin = 0
        for number, part in enumerate(self._parts):
            self._taken_out(packed, number, begin, part)
            begin += part.size
        return self._sender.nodes + self._receiver.nodes

    def move_readers(self, edits: Edits) -> None:
        """Makes every reader on the receiving task read its part of the message."""
        for number, part in enumerate(self._parts):
            edits.move(part.uses, self._receiver.name("part_{}".format(number)))

    def _concatenated(self) -> Tensor:
        writer = self._sender
        flat = writer.constant("flat", np.array([-1], np.int32))
        vectors = [
            part.tensor
            if len(part.shape) == 1
            else _reshaped(writer, "flat_{}".format(number), part.tensor, flat)
            for number, part in enumerate(self._parts)
        ]
        size = sum(part.size for part in self._parts)
        return writer.joined("concat", vectors, axis=0, output_shapes=[(size,)])

    def _taken_out(self, packed: Tensor, number: int, begin: int, part: DensePart) -> None:
        writer = self._receiver
        is_vector = len(part.shape) == 1
        vector = writer.call(
            "{}_{}".format("part" if is_vector else "slice", number),
            "Slice",
            input=packed,
            begin=writer.constant("begin_{}".format(number), np.array([begin], np.int32)),
            size=writer.constant("size_{}".format(number), np.array([part.size], np.int32)),
        ).result
        if not is_vector:
            shape = writer.constant("shape_{}".format(number), np.array(part.shape, np.int32))
            _reshaped(writer, "part_{}".format(number), vector, shape, part.shape)


def _reshaped(
    writer: NodeWriter, suffix: str, tensor: Operand, shape: Tensor, known: Shape = (None,)
) -> Tensor:
    call = writer.call(suffix, "Reshape", tensor=tensor, shape=shape)
    return call.result


def _outcome(transfer: DenseTransfer) -> PackedTransfer:
    dtype = tf.as_dtype(value_dtype(transfer.dtype)).name
    return PackedTransfer(transfer.source, transfer.target, dtype, len(transfer.parts))


def _lines(transfers: Tuple[DenseTransfer, ...]) -> List[str]:
    """A line for each pair of tasks and direction."""
    found: Dict[Tuple[str, str, str], List[int]] = collections.defaultdict(list)
    for each in transfers:
        found[each.kind, each.source, each.target].append(len(each.parts))
    return [
        "pack_dense: {} in {} from {} to {}".format(
            counted(sum(sizes), "variable" if kind == WEIGHTS else "tensor") + _PURPOSE[kind],
            counted(len(sizes), "transfer"),
            _task(source),
            _task(target),
        )
        for (kind, source, target), sizes in found.items()
    ]


def _task(device: str) -> str:
    return device.partition("/device:")[0]
