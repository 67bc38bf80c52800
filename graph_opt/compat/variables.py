"""The parts of a variable."""

from __future__ import annotations

from typing import Any, List

from tensorflow.python.ops import variables
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

try:
    from tensorflow.python.ops.ref_variable import RefVariable as _RefVariable
except ImportError:  # TensorFlow before 2.12
    _RefVariable = variables.RefVariable


def parts_of(variable: Any) -> List[Any]:
    """The parts of a PartitionedVariable, in order; anything else is its own and only part."""
    if isinstance(variable, variables.PartitionedVariable):
        return list(variable)
    return [variable]


def imported_variable(proto: Any) -> Any:
    """The variable of nodes that were imported into the current graph.

    Args:
      proto: Of a variable with nodes of the same names: `variable.to_proto()`.
    """
    if proto.is_resource:
        return ResourceVariable(variable_def=proto)
    return _RefVariable(variable_def=proto)
