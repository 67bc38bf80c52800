"""Features that are parsed with any number of values in each row: lists of values."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.view import TensorRef
from graph_opt.passes.node_writer import NodeWriter

_INT64 = tf.int64.as_datatype_enum
_FLOAT = tf.float32.as_datatype_enum


class ListedInput(NamedTuple):
    """One feature, as a parser gives it: places follow each other in each row, from 0.

    Attributes:
      indices: [values, 2], the row and the place of each value.
      values: [values].
      dense_shape: [2], the numbers of rows and of places.
      serialized: The examples, [rows], that are parsed.
    """

    indices: TensorRef
    values: TensorRef
    dense_shape: TensorRef
    serialized: TensorRef

    @property
    def tensors(self) -> Sequence[TensorRef]:
        """The three parts."""
        return self.indices, self.values, self.dense_shape


class FirstLists:
    """Takes the first row of one feature, once all rows were found to have the same values.

    All rows have as many values as the first one (the first check, without which values could not
    be compared as a matrix), these are the same, and each row has its own.

    Args:
      writer: Where new nodes go.
      suffix: Of their names.
      listed: The feature.
      rows: How many rows the request has, int32.
      texts: What errors say: before, and behind the name of the feature, and the name.
    """

    def __init__(
        self,
        writer: NodeWriter,
        suffix: str,
        listed: ListedInput,
        rows: Tensor,
        texts: Sequence[str],
    ) -> None:
        self._writer = writer
        self._suffix = suffix
        self._listed = listed
        self._rows = rows
        self._texts = [
            writer.constant("{}/text_{}".format(suffix, number), text)
            for number, text in enumerate(texts)
        ]

    def written(self, bits: int = 0) -> Dict[TensorRef, Tensor]:
        """Writes the nodes; returns what the first row has in place of each part.

        Args:
          bits: The DataType number as which values are compared; 0 for their own.
        """
        first = self._sliced()
        each = self._length(first[1], "each")
        expected = self._call("Mul", "expected", x=self._rows, y=each)
        whole = self._length(self._listed.values, "whole")
        as_many = self._call("Equal", "as_many", x=whole, y=expected)
        counted = self._require(as_many, "counted")
        target = self._call("Pack", "target", values=[self._rows, each])
        differs = self._call(
            "LogicalOr",
            "differs",
            x=self._other_values(first[1], target, counted, bits),
            y=self._other_rows(target, counted),
        )
        number = self._call("Cast", "number", x=differs, DstT=_FLOAT)
        axes = self._constant("axes", [0, 1])
        largest = self._call("Max", "largest", input=number, reduction_indices=axes)
        least = self._writer.constant(self._suffix + "/least", np.float32(1))
        checked = self._require(self._call("Less", "same", x=largest, y=least), "checked")
        passed = self._writer.call(self._suffix, "IdentityN", waits_for=[checked], input=first)
        return dict(zip(self._listed.tensors, passed.outputs("output")))

    def _sliced(self) -> List[Tensor]:
        """The first row, if there is one, of as many places as all have."""
        writer, suffix, listed = self._writer, self._suffix, self._listed
        places = self._part(listed.dense_shape, "places", [1], [2])
        one = writer.constant(suffix + "/one", np.array([1], np.int64))
        size = writer.joined(suffix + "/size", [one, places], 0)
        start = writer.constant(suffix + "/start", np.array([0, 0], np.int64))
        call = writer.call(
            suffix + "/first",
            "SparseSlice",
            indices=listed.indices,
            values=listed.values,
            shape=listed.dense_shape,
            start=start,
            size=size,
        )
        return [call.output("output_" + part) for part in ("indices", "values", "shape")]

    def _other_values(self, first: Tensor, target: Tensor, after: str, bits: int) -> Tensor:
        values = self._matrix(self._listed.values, "values", target, after)
        sides = [values, first]
        if bits:
            sides = [
                self._call("Bitcast", "bits_{}".format(place), input=side, type=bits)
                for place, side in enumerate(sides)
            ]
        return self._call("NotEqual", "other_values", x=sides[0], y=sides[1])

    def _other_rows(self, target: Tensor, after: str) -> Tensor:
        listed = self._part(self._listed.indices, "column", [0, 0], [0, 1], shrink_axis_mask=2)
        found = self._matrix(listed, "found_rows", target, after)
        zero, one = self._scalar("zero", 0), self._scalar("step", 1)
        counted = self._call("Range", "range", start=zero, limit=self._rows, delta=one)
        expected = self._call("ExpandDims", "column_of_rows", input=counted, dim=one)
        cast = self._call("Cast", "own_rows", x=expected, DstT=_INT64)
        return self._call("NotEqual", "other_rows", x=found, y=cast)

    def _matrix(self, tensor: object, what: str, target: Tensor, after: str) -> Tensor:
        """A list as [rows, values of each], once its length is known to be right."""
        call = self._writer.call(
            "{}/{}".format(self._suffix, what),
            "Reshape",
            waits_for=[after],
            tensor=tensor,
            shape=target,
        )
        return call.result

    def _length(self, tensor: object, what: str) -> Tensor:
        shape = self._call("Shape", what + "/shape", input=tensor)
        return self._part(shape, what, [0], [1], shrink_axis_mask=1)

    def _part(
        self, tensor: object, what: str, begin: List[int], end: List[int], **masks: int
    ) -> Tensor:
        if len(begin) > 1:
            masks.update(begin_mask=1, end_mask=1)
        return self._call(
            "StridedSlice",
            what,
            input=tensor,
            begin=self._constant(what + "/begin", begin),
            end=self._constant(what + "/end", end),
            strides=self._constant(what + "/strides", [1] * len(begin)),
            **masks,
        )

    def _require(self, condition: Tensor, what: str) -> str:
        suffix = "{}/{}/assert".format(self._suffix, what)
        return self._writer.call(suffix, "Assert", condition=condition, data=self._texts).name

    def _scalar(self, what: str, value: int) -> Tensor:
        return self._writer.constant("{}/{}".format(self._suffix, what), np.int32(value))

    def _constant(self, what: str, value: List[int]) -> Tensor:
        return self._writer.constant("{}/{}".format(self._suffix, what), np.array(value, np.int32))

    def _call(self, op: str, what: str, **arguments: object) -> Tensor:
        suffix = "{}/{}".format(self._suffix, what)
        return self._writer.call(suffix, op, None, (), None, **arguments).result
