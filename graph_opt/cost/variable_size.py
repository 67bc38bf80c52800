"""The shape of a variable, and what its rows take."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat.op_definitions import dtype_size
from graph_opt.graph.view import GraphView
from graph_opt.rules.match.frozen_tables import CONSTANT
from graph_opt.rules.match.table import describe


class VariableSize(NamedTuple):
    """Shape and element type of a variable.

    Attributes:
      dimensions: Its shape; -1 where a dimension is not known.
      element: Bytes of an element.
    """

    dimensions: Tuple[int, ...]
    element: int

    @property
    def width(self) -> Optional[int]:
        """Elements of a row; None if not known."""
        return _product(self.dimensions[1:])

    @property
    def elements(self) -> Optional[int]:
        """Elements of the variable; None if not known."""
        return _product(self.dimensions)


def variable_size(view: GraphView, name: str) -> Optional[VariableSize]:
    """The size of a variable, or of the constant that a frozen graph has in its place.

    None if the graph gives neither its rank nor its element type.
    """
    if view.op(name) == CONSTANT:
        table = describe(view, name)
        element, sizes = dtype_size(table.dtype), table.shape
        if element is None or sizes is None:
            return None
        return VariableSize(tuple(-1 if size is None else size for size in sizes), element)
    shape, dtype = view.attribute(name, "shape"), view.attribute(name, "dtype")
    element = None if dtype is None else dtype_size(dtype.type)
    if shape is None or shape.shape.unknown_rank or element is None:
        return None
    return VariableSize(tuple(dimension.size for dimension in shape.shape.dim), element)


def _product(dimensions: Sequence[int]) -> Optional[int]:
    found = 1
    for dimension in dimensions:
        if dimension < 0:
            return None
        found *= dimension
    return found
