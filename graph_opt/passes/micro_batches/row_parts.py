"""Divides tensors among micro-batches, and counts their rows."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import value_dtype
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes import attribute_values as values
from graph_opt.passes.micro_batches.values import RowCount, Rows
from graph_opt.passes.node_writer import NodeWriter

_INT32 = tf.int32.as_datatype_enum
_FLOAT32 = tf.float32.as_datatype_enum


class RowParts:
    """Writes what is asked for, once each.

    Args:
      view: The graph.
      writer: Where new nodes go.
      number: How many micro-batches there are.
      early: Returns the value of a tensor for the whole batch, as NodeDefs spell it.

    Attributes:
      gates: With which each micro-batch begins, and its number.
    """

    def __init__(
        self, view: GraphView, writer: NodeWriter, number: int, early: Callable[[TensorRef], str]
    ) -> None:
        self._view = view
        self._writer = writer
        self._number = number
        self._early = early
        self._made: Dict[Tuple[Any, ...], str] = {}
        self.gates: List[Tuple[int, Any]] = []

    def _once(self, key: Tuple[Any, ...], make: Any) -> str:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _dtype(self, tensor: TensorRef) -> int:
        return value_dtype(self._view.dtype(tensor) or _FLOAT32)

    def part(self, tensor: TensorRef, rows: Rows, place: int) -> str:
        """A micro-batch's rows of a tensor that is computed for the whole batch."""
        key = ("part", tensor, rows.axis, rows.times, place)
        return self._once(key, lambda: self._gate(tensor, rows, place))

    def _gate(self, tensor: TensorRef, rows: Rows, place: int) -> str:
        key = ("split", tensor, rows.axis, rows.times)
        split = self._once(key, lambda: self._split(tensor, rows))
        suffix = "{}/rows_of/{}/{}_{}".format(place, tensor.node, tensor.index, rows.axis)
        gate = self._writer.node(
            suffix,
            "Identity",
            [TensorRef(split, place).input_name],
            self._view.device(tensor.node),
            T=tf.AttrValue(type=self._dtype(tensor)),
        )
        self.gates.append((place, gate))
        return str(gate.name)

    def _split(self, tensor: TensorRef, rows: Rows) -> str:
        suffix = "rows_of/{}/{}_{}".format(tensor.node, tensor.index, rows.axis)
        device = self._view.device(tensor.node)
        lengths = self.times(self._row_sizes(rows.rows), rows.times or 1, suffix + "/sizes")
        axis = self._writer.constant(suffix + "/axis", np.int32(rows.axis), device)
        node = self._writer.node(
            suffix,
            "SplitV",
            [self._early(tensor), lengths, axis],
            device,
            num_split=values.integer(self._number),
            T=tf.AttrValue(type=self._dtype(tensor)),
            Tlen=tf.AttrValue(type=_INT32),
        )
        return str(node.name)

    def row_count(self, rows: RowCount) -> str:
        """The number of rows of the batch, a scalar."""
        return self._once(("count", rows.root), lambda: self._write_row_count(rows))

    def _write_row_count(self, rows: RowCount) -> str:
        suffix = "count/" + rows.first.node + "/{}".format(rows.first.index)
        if rows.static is not None:
            return self._writer.constant(suffix, np.int32(rows.static))
        shape = self._writer.node(
            suffix + "/shape", "Shape", [self._early(rows.first)],
            T=tf.AttrValue(type=self._dtype(rows.first)), out_type=tf.AttrValue(type=_INT32),
        )  # fmt: skip
        bounds = [
            self._writer.constant("{}/{}".format(suffix, key), np.array([at], np.int32))
            for key, at in (("begin", 0), ("end", 1), ("stride", 1))
        ]
        node = self._writer.node(
            suffix,
            "StridedSlice",
            [shape.name, *bounds],
            T=tf.AttrValue(type=_INT32),
            Index=tf.AttrValue(type=_INT32),
            shrink_axis_mask=values.integer(1),
        )
        return str(node.name)

    def _row_sizes(self, rows: RowCount) -> str:
        """The numbers of rows of all micro-batches, a vector."""
        return self._once(("sizes", rows.root), lambda: self._write_row_sizes(rows))

    def _write_row_sizes(self, rows: RowCount) -> str:
        suffix = "sizes/" + rows.first.node + "/{}".format(rows.first.index)
        if rows.static is not None:
            static = sizes(rows.static, self._number)
            return self._writer.constant(suffix, np.array(static, np.int32))
        # Micro-batch i has (rows + i) // number rows.
        places = self._writer.constant(suffix + "/places", np.arange(self._number, dtype=np.int32))
        number = self._writer.constant(suffix + "/number", np.int32(self._number))
        kind = tf.AttrValue(type=_INT32)
        more = self._writer.node(
            suffix + "/more", "AddV2", [self.row_count(rows), places], T=kind
        ).name
        return str(self._writer.node(suffix, "FloorDiv", [more, number], T=kind).name)

    def times(self, numbers: str, times: int, suffix: str) -> str:
        """Integers times a factor."""
        if times == 1:
            return numbers
        factor = self._writer.constant(suffix + "/times", np.int32(times))
        kind = tf.AttrValue(type=_INT32)
        return str(self._writer.node(suffix, "Mul", [numbers, factor], T=kind).name)

    def share(self, tensor: TensorRef, rows: Rows, mean: str, place: int) -> str:
        """A micro-batch's part of a mean over the batch's rows; 0 if it has no rows."""
        key = ("share", tensor, place)
        return self._once(key, lambda: self._write_share(tensor, rows, mean, place))

    def _write_share(self, tensor: TensorRef, rows: Rows, mean: str, place: int) -> str:
        shares = self._once(("shares", rows.rows.root), lambda: self._write_shares(rows.rows))
        suffix = "{}/{}/share".format(place, tensor.node)
        dtype = self._dtype(tensor)
        share = self.cast(TensorRef(shares, place).input_name, _FLOAT32, dtype, suffix + "/cast")
        node = self._writer.node(
            suffix,
            "MulNoNan",
            [mean, share],
            self._view.device(tensor.node),
            T=tf.AttrValue(type=dtype),
        )
        return str(node.name)

    def _write_shares(self, rows: RowCount) -> str:
        suffix = "shares/" + rows.first.node + "/{}".format(rows.first.index)
        lengths = self.cast(self._row_sizes(rows), _INT32, _FLOAT32, suffix + "/sizes")
        count = self.cast(self.row_count(rows), _INT32, _FLOAT32, suffix + "/count")
        kind = tf.AttrValue(type=_FLOAT32)
        quotient = self._writer.node(suffix + "/quotient", "RealDiv", [lengths, count], T=kind)
        node = self._writer.node(
            suffix, "Unpack", [quotient.name],
            num=values.integer(self._number), T=kind, axis=values.integer(0),
        )  # fmt: skip
        return str(node.name)

    def cast(self, tensor: str, source: int, target: int, suffix: str) -> str:
        """A tensor as another DataType number, if it has that not already."""
        if source == target:
            return tensor
        kinds = {"SrcT": tf.AttrValue(type=source), "DstT": tf.AttrValue(type=target)}
        return str(self._writer.node(suffix, "Cast", [tensor], **kinds).name)


def sizes(rows: int, number: int) -> List[int]:
    """How many rows each micro-batch has."""
    return [(rows + place) // number for place in range(number)]
