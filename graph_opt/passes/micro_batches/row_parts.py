"""Divides tensors among micro-batches, and counts their rows."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple, TypeVar

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.micro_batches.values import RowCount, Rows
from graph_opt.passes.node_writer import NodeWriter

_INT32 = tf.int32.as_datatype_enum
_FLOAT32 = tf.float32.as_datatype_enum
_Made = TypeVar("_Made")


class MakesOnce:
    """Makes what is asked for, once each."""

    def __init__(self) -> None:
        self._made: Dict[Tuple[Any, ...], Any] = {}

    def once(self, key: Tuple[Any, ...], make: Callable[[], _Made]) -> _Made:
        """What is made for a key."""
        if key not in self._made:
            self._made[key] = make()
        made: _Made = self._made[key]
        return made


class RowParts(MakesOnce):
    """Writes what is asked for, once each.

    Args:
      view: The graph.
      writer: Where new nodes go.
      number: How many micro-batches there are.
      early: Returns the value of a tensor for the whole batch.

    Attributes:
      gates: With which each micro-batch begins, and its number.
    """

    def __init__(
        self,
        view: GraphView,
        writer: NodeWriter,
        number: int,
        early: Callable[[TensorRef], Tensor],
    ) -> None:
        super().__init__()
        self._view = view
        self._writer = writer
        self._number = number
        self._early = early
        self.gates: List[Tuple[int, Any]] = []

    def part(self, tensor: TensorRef, rows: Rows, place: int) -> Tensor:
        """A micro-batch's rows of a tensor that is computed for the whole batch."""
        key = ("part", tensor, rows.axis, rows.times, place)
        return self.once(key, lambda: self._gate(tensor, rows, place))

    def _gate(self, tensor: TensorRef, rows: Rows, place: int) -> Tensor:
        key = ("split", tensor, rows.axis, rows.times)
        split = self.once(key, lambda: self._split(tensor, rows))
        suffix = "{}/rows_of/{}/{}_{}".format(place, tensor.node, tensor.index, rows.axis)
        device = self._view.device(tensor.node)
        gate = self._writer.call(suffix, "Identity", device, input=split[place])
        self.gates.append((place, gate.node))
        return gate.result

    def _split(self, tensor: TensorRef, rows: Rows) -> List[Tensor]:
        suffix = "rows_of/{}/{}_{}".format(tensor.node, tensor.index, rows.axis)
        device = self._view.device(tensor.node)
        lengths = self.times(self._row_sizes(rows.rows), rows.times or 1, suffix + "/sizes")
        split = self._writer.call(
            suffix,
            "SplitV",
            device,
            value=self._early(tensor),
            size_splits=lengths,
            split_dim=self._writer.constant(suffix + "/axis", np.int32(rows.axis), device),
            num_split=self._number,
        )
        return split.outputs("output")

    def row_count(self, rows: RowCount) -> Tensor:
        """The number of rows of the batch, a scalar."""
        return self.once(("count", rows.root), lambda: self._write_row_count(rows))

    def _write_row_count(self, rows: RowCount) -> Tensor:
        suffix = "count/" + rows.first.node + "/{}".format(rows.first.index)
        if rows.static is not None:
            return self._writer.constant(suffix, np.int32(rows.static))
        shape = self._writer.call(suffix + "/shape", "Shape", input=self._early(rows.first))
        begin, end, strides = [
            self._writer.constant("{}/{}".format(suffix, key), np.array([at], np.int32))
            for key, at in (("begin", 0), ("end", 1), ("stride", 1))
        ]
        first = self._writer.call(
            suffix,
            "StridedSlice",
            input=shape.result,
            begin=begin,
            end=end,
            strides=strides,
            shrink_axis_mask=1,
        )
        return first.result

    def _row_sizes(self, rows: RowCount) -> Tensor:
        """The numbers of rows of all micro-batches, a vector."""
        return self.once(("sizes", rows.root), lambda: self._write_row_sizes(rows))

    def _write_row_sizes(self, rows: RowCount) -> Tensor:
        suffix = "sizes/" + rows.first.node + "/{}".format(rows.first.index)
        if rows.static is not None:
            static = sizes(rows.static, self._number)
            return self._writer.constant(suffix, np.array(static, np.int32))
        # Micro-batch i has (rows + i) // number rows.
        places = self._writer.constant(suffix + "/places", np.arange(self._number, dtype=np.int32))
        number = self._writer.constant(suffix + "/number", np.int32(self._number))
        more = self._writer.call(suffix + "/more", "AddV2", x=self.row_count(rows), y=places)
        return self._writer.call(suffix, "FloorDiv", x=more.result, y=number).result

    def times(self, numbers: Tensor, times: int, suffix: str) -> Tensor:
        """Integers times a factor."""
        if times == 1:
            return numbers
        factor = self._writer.constant(suffix + "/times", np.int32(times))
        return self._writer.call(suffix, "Mul", x=numbers, y=factor).result

    def share(self, tensor: TensorRef, rows: Rows, mean: Tensor, place: int) -> Tensor:
        """A micro-batch's part of a mean over the batch's rows; 0 if it has no rows."""
        key = ("share", tensor, place)
        return self.once(key, lambda: self._write_share(tensor, rows, mean, place))

    def _write_share(self, tensor: TensorRef, rows: Rows, mean: Tensor, place: int) -> Tensor:
        shares = self.once(("shares", rows.rows.root), lambda: self._write_shares(rows.rows))
        suffix = "{}/{}/share".format(place, tensor.node)
        share = self.cast(shares[place], mean.dtype, suffix + "/cast")
        device = self._view.device(tensor.node)
        return self._writer.call(suffix, "MulNoNan", device, x=mean, y=share).result

    def _write_shares(self, rows: RowCount) -> List[Tensor]:
        suffix = "shares/" + rows.first.node + "/{}".format(rows.first.index)
        lengths = self.cast(self._row_sizes(rows), _FLOAT32, suffix + "/sizes")
        count = self.cast(self.row_count(rows), _FLOAT32, suffix + "/count")
        quotient = self._writer.call(suffix + "/quotient", "RealDiv", x=lengths, y=count)
        shares = self._writer.call(suffix, "Unpack", value=quotient.result, num=self._number)
        return shares.outputs("output")

    def cast(self, tensor: Tensor, dtype: int, suffix: str) -> Tensor:
        """A tensor as another DataType number, if it has that not already."""
        if tensor.dtype == dtype:
            return tensor
        return self._writer.call(suffix, "Cast", x=tensor, DstT=dtype).result


def sizes(rows: int, number: int) -> List[int]:
    """How many rows each micro-batch has."""
    return [(rows + place) // number for place in range(number)]
