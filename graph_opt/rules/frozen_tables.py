"""Tables of frozen graphs: constants, in place of the variables that were trained.

    Const -> gather
    Const -> Identity -> gather        what was a read of the variable

A constant is a table only in a graph that trains nothing: elsewhere its rows are an input like any
other, and no update is there to be fused with its lookup.
"""

from __future__ import annotations

from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.compat.variable_ops import TRAINS, VariableUse, is_use
from graph_opt.graph.view import GraphView

CONSTANT = "Const"
_LEAST_DIMENSIONS = 2
_TRAINS = TRAINS | {VariableUse.CHANGES_ROWS}
_FLOATS = frozenset(
    dtype.as_datatype_enum for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64)
)


def trains_nothing(view: GraphView) -> bool:
    """Whether no op of the graph applies gradients or changes rows of a variable."""
    return not any(is_use(op, _TRAINS) for op in view.ops())


def is_frozen_table(view: GraphView, name: str) -> bool:
    """Whether a node is a constant that lookups may read as their table.

    Constants in a tf.cond or tf.while_loop wait for the branch or the iteration, and are none.

    Example:
      >>> is_frozen_table(GraphView(frozen_graph_def), "user_embedding")
      True
    """
    if view.op(name) != CONSTANT or view.controls(name):
        return False
    tensor = constant_tensor(view, name)
    return (
        tensor is not None and tensor.dtype in _FLOATS and has_rows(tensor) and trains_nothing(view)
    )


def has_rows(tensor: Any) -> bool:
    """Whether a constant's TensorProto has the rows of a table, of whatever type."""
    return len(tensor.tensor_shape.dim) >= _LEAST_DIMENSIONS


def constant_tensor(view: GraphView, name: str) -> Optional[Any]:
    """The TensorProto of a constant, perhaps without its values; None in a damaged graph."""
    value = view.attribute(name, "value")
    return None if value is None else value.tensor
