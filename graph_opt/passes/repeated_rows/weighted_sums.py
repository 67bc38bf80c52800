"""Sums of repeated rows, each with its own weights: one product of the weights with the rows.

    Sum(h * w, places)     h [rows, places, columns] is repeated, w [rows, places, 1] varies
    BatchMatMul(w, h)      the same, w [rows, n, places]

become `w [rows * n, places] x h[0] [places, columns]`: attention of many items to one history.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.repeated_rows.classify import Classifier
from graph_opt.passes.repeated_rows.single_rows import first_row, row_matrix

_FLOATS = (tf.float32.as_datatype_enum, tf.float64.as_datatype_enum)
_RANK = 3


class _WeightedSum(NamedTuple):
    """A sum of repeated rows.

    Attributes:
      name: The node.
      rows: What is repeated, [rows, places, columns].
      weights: What varies, which has a number for each place in its last or next to last axis.
      places: How many.
      result: Sizes of the result, -1 for rows.
      is_transposed: Whether columns are summed over, and places stay.
    """

    name: str
    rows: TensorRef
    weights: TensorRef
    places: int
    result: Sequence[int]
    is_transposed: bool = False


class WeightedSums:
    """Finds them, and writes what replaces them.

    Args: see `JoinedProducts`.
    """

    def __init__(
        self, view: GraphView, classifier: Classifier, writer: NodeWriter, edits: Edits
    ) -> None:
        self._view = view
        self._classifier = classifier
        self._writer = writer
        self._edits = edits

    def replace(self) -> Dict[TensorRef, Tensor]:
        """Replaces all of them; returns what stands for their results."""
        found = [self._of_sum(name) for name in self._view.of_op("Sum")]
        products = self._view.of_op("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
        found += [self._of_product(name) for name in products]
        replaced = {
            TensorRef(each.name, 0): self._written(each) for each in found if each is not None
        }
        for result, product in replaced.items():
            self._edits.replace(result, product)
        return replaced

    def _of_sum(self, name: str) -> Optional[_WeightedSum]:
        view = self._view
        source, axes = view.inputs(name)
        summed, kept = view.constant(axes), view.attribute(name, "keep_dims")
        if summed is None or list(summed.reshape(-1)) != [1] or (kept is not None and kept.b):
            return None
        if view.op(source.node) != "Mul" or self._waits(name, source.node):
            return None
        found = self._once_and_varying(view.inputs(source.node))
        if found is None:
            return None
        rows, weights = found
        shape, places = self._sizes(rows), self._sizes(weights)
        if shape is None or places != (shape[0], 1):
            return None
        return _WeightedSum(name, rows, weights, shape[0], [-1, shape[1]])

    def _of_product(self, name: str) -> Optional[_WeightedSum]:
        view = self._view
        weights, rows = view.inputs(name)
        flags = [view.attribute(name, key) for key in ("adj_x", "adj_y")]
        adjoint = [flag is not None and flag.b for flag in flags]
        if adjoint[0] or self._waits(name):
            return None
        if self._once_and_varying((weights, rows)) != (rows, weights):
            return None
        shape, sizes = self._sizes(rows), self._sizes(weights)
        if shape is None or sizes is None:
            return None
        inner, outer = (shape[1], shape[0]) if adjoint[1] else shape
        if sizes[1] != inner:
            return None
        return _WeightedSum(name, rows, weights, inner, [-1, sizes[0], outer], bool(adjoint[1]))

    def _waits(self, *names: str) -> bool:
        return any(self._view.controls(name) for name in names)

    def _once_and_varying(
        self, tensors: Sequence[TensorRef]
    ) -> Optional[Tuple[TensorRef, TensorRef]]:
        once = [tensor for tensor in tensors if self._classifier.is_once(tensor)]
        varying = [tensor for tensor in tensors if tensor not in once]
        if len(once) != 1 or len(varying) != 1 or self._view.dtype(once[0]) not in _FLOATS:
            return None
        return once[0], varying[0]

    def _sizes(self, tensor: TensorRef) -> Optional[Tuple[int, int]]:
        """The sizes of the axes behind the rows', if both are known."""
        value, shape = self._classifier.value(tensor), self._classifier.shape(tensor)
        rows = None if value is None else value.rows
        if rows is None or rows.axis or rows.times != 1 or shape is None or len(shape) != _RANK:
            return None
        return (shape[1], shape[2]) if shape[1] and shape[2] else None

    def _written(self, found: _WeightedSum) -> Tensor:
        writer, device = self._writer, self._view.device(found.name)
        first = first_row(writer, found.name + "/first", found.rows, device)
        rows = row_matrix(writer, found.name + "/row", first, is_vector=False)
        weights = self._reshaped(found.name + "/weights", found.weights, [-1, found.places])
        product = writer.call(
            found.name + "/product",
            "MatMul",
            device,
            a=weights,
            b=rows,
            transpose_b=found.is_transposed,
        ).result
        if len(found.result) == _RANK:
            return self._reshaped(found.name + "/result", product, found.result)
        return product

    def _reshaped(self, suffix: str, tensor: object, shape: Sequence[int]) -> Tensor:
        target = self._writer.constant(suffix + "/shape", np.array(shape, np.int32))
        return self._writer.call(suffix, "Reshape", tensor=tensor, shape=target).result
