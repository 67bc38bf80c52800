"""Features that are parsed with any number of values in each row: lists of values."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from graph_opt.graph.view import TensorRef


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
