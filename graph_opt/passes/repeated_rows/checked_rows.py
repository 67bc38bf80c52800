"""Takes the first row of an input, once a request has been found to have the same in all rows.

    input ─┬─ [0:1] ── first ──┐
           └───────────────── NotEqual ── Max ── Assert (names the feature)
           └─ [0:1] <── waits for the Assert

Numbers are compared by their bits: then nan is equal to itself, and 0.0 is not -0.0, by which a
model may divide.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import dtype_name
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.repeated_rows.single_rows import first_row

_BITS: Mapping[int, int] = {
    tf.float16.as_datatype_enum: tf.int16.as_datatype_enum,
    tf.bfloat16.as_datatype_enum: tf.int16.as_datatype_enum,
    tf.float32.as_datatype_enum: tf.int32.as_datatype_enum,
    tf.float64.as_datatype_enum: tf.int64.as_datatype_enum,
}
_COMPARED = frozenset(
    one.as_datatype_enum
    for one in (tf.bool, tf.string, tf.int8, tf.uint8, tf.int16, tf.int32, tf.int64)
)
_FLOAT = tf.float32.as_datatype_enum
_SUMMARIZED = 3
DIFFERS = (
    "the rows of the request differ in {}, and this graph was exported for requests that repeat it "
    "in all rows (--repeated)"
)
_OTHER_NUMBER = "the request has other numbers of rows of {} and of {}"


def require_rows(view: GraphView, feature: str, tensor: TensorRef) -> None:
    """Refuses an input whose rows cannot be taken, or not be compared.

    Raises:
      Refusal: Why.
    """
    shape, dtype = view.shape(tensor), view.dtype(tensor)
    saw = ""
    if not shape:
        saw = "an unknown rank" if shape is None else "a single value"
    elif shape[0] is not None:
        saw = "{} rows in each request".format(shape[0])
    elif dtype not in _COMPARED and dtype not in _BITS:
        saw = "values of {}".format(dtype_name(dtype or 0))
    if saw:
        need = "an input {!r} that has a row of numbers or strings for each row of a request"
        raise Refusal("rows_mixed", at=tensor.node, need=need.format(feature), saw=saw)


class CheckedRows:
    """Writes the checks.

    Args:
      view: The graph.
      writer: Where new nodes go.
    """

    def __init__(self, view: GraphView, writer: NodeWriter) -> None:
        self._view = view
        self._writer = writer
        self._slices: Dict[str, Any] = {}
        self._scopes: Dict[str, str] = {}

    def first(self, feature: str, tensor: TensorRef) -> Tensor:
        """The first row, [1, ...], of an input all of whose rows are the same."""
        suffix, device = self._scope(feature), self._view.device(tensor.node)
        compared = first_row(self._writer, suffix + "/first", tensor, device)
        checked = first_row(self._writer, suffix, tensor, device)
        self._slices[feature] = self._writer.nodes[-1]
        differ = self._differ(suffix, tensor, compared)
        least = self._writer.constant(suffix + "/least", np.float32(1))
        same = self._writer.call(suffix + "/same", "Less", x=differ, y=least).result
        self._wait(feature, suffix + "/same/assert", same, DIFFERS.format(feature))
        return checked

    def same_number(self, feature: str, other: str, counts: Sequence[Tensor]) -> None:
        """Has an input's first row wait until two inputs were found to have as many rows."""
        suffix = self._scope(feature) + "/count"
        same = self._writer.call(suffix, "Equal", x=counts[0], y=counts[1]).result
        self._wait(feature, suffix + "/assert", same, _OTHER_NUMBER.format(feature, other))

    def _scope(self, feature: str) -> str:
        """Where the nodes of a feature are: its name, of the characters that names of nodes have."""
        if feature not in self._scopes:
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", feature)
            taken = "rows/" + plain in self._scopes.values()
            number = "_{}".format(len(self._scopes)) if taken else ""
            self._scopes[feature] = "rows/{}{}".format(plain, number)
        return self._scopes[feature]

    def _differ(self, suffix: str, tensor: TensorRef, row: Tensor) -> Tensor:
        """1 if any value differs from that of the first row; 0, or less without rows, if none."""
        sides: Sequence[Any] = [tensor, row]
        bits = _BITS.get(self._view.dtype(tensor) or 0)
        if bits is not None:
            sides = [
                self._writer.call(
                    "{}/bits_{}".format(suffix, number), "Bitcast", input=side, type=bits
                ).result
                for number, side in enumerate(sides)
            ]
        differs = self._writer.call(suffix + "/differs", "NotEqual", x=sides[0], y=sides[1]).result
        # Any takes ten times as long as a cast and a maximum of numbers.
        number = self._writer.call(suffix + "/number", "Cast", x=differs, DstT=_FLOAT).result
        rank = len(self._view.shape(tensor) or ())
        axes = self._writer.constant(suffix + "/axes", np.arange(rank, dtype=np.int32))
        return self._writer.call(
            suffix + "/largest", "Max", input=number, reduction_indices=axes
        ).result

    def _wait(self, feature: str, suffix: str, condition: Tensor, message: str) -> None:
        text = self._writer.constant(suffix + "/message", message)
        check = self._writer.call(
            suffix, "Assert", condition=condition, data=[text], summarize=_SUMMARIZED
        )
        self._slices[feature].input.append("^" + check.name)
