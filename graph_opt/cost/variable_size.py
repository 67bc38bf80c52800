"""The shape of a variable, and what its rows take."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from graph_opt.compat.op_definitions import dtype_size
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.static_shapes import count_elements
from graph_opt.graph.view import GraphView
from graph_opt.rules.match.table import describe


class VariableSize(NamedTuple):
    """Shape and element type of a variable.

    Attributes:
      shape: Its shape, with None for a size that is not known.
      element: Bytes of an element.
    """

    shape: Tuple[Optional[int], ...]
    element: int

    @property
    def width(self) -> Optional[int]:
        """Elements of a row; None if not known."""
        return count_elements(self.shape[1:])

    @property
    def elements(self) -> Optional[int]:
        """Elements of the variable; None if not known."""
        return count_elements(self.shape)


def variable_size(view: GraphView, name: str) -> Optional[VariableSize]:
    """The size of a variable, or of the constant that a frozen graph has in its place.

    None if the graph gives neither its rank nor its element type.
    """
    try:
        table = describe(view, name)
    except Refusal:
        return None
    element = dtype_size(table.dtype)
    if table.shape is None or element is None:
        return None
    return VariableSize(table.shape, element)
