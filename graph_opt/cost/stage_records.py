"""Where tensors come from that stages and packed transfers carry.

The outputs of a take are the inputs of its stage's put; the parts of a split are what was joined.
"""

from __future__ import annotations

from typing import Dict, Optional

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_nodes import BUFFER_PUT, BUFFER_TAKE


class StageRecords:
    """Finds what was put for each output of a take.

    Args:
      view: A graph.
    """

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._puts: Dict[bytes, str] = {}
        for put in view.of_op(BUFFER_PUT):
            self._puts.setdefault(_buffer_of(view, put), put)

    def carried(self, tensor: TensorRef) -> Optional[TensorRef]:
        """The tensor that a take or a split returns as `tensor`; None if it is neither."""
        op = self._view.op(tensor.node)
        if op == BUFFER_TAKE:
            return self.put_input(tensor)
        if op != "SplitV":
            return None
        joined = self._view.inputs(tensor.node)[0]
        if self._view.op(joined.node) != "ConcatV2":
            return None
        parts = self._view.inputs(joined.node)[:-1]
        return parts[tensor.index] if tensor.index < len(parts) else None

    def put_input(self, taken: TensorRef) -> Optional[TensorRef]:
        """The tensor that a take returns as `taken`; None if its buffer is filled elsewhere."""
        put = self._puts.get(_buffer_of(self._view, taken.node))
        return None if put is None else self._view.input(put, taken.index)


def _buffer_of(view: GraphView, name: str) -> bytes:
    shared = view.attribute(name, "shared_name")
    return b"" if shared is None else bytes(shared.s)
