"""Names that TensorFlow 1.15 had in modules below `tensorflow.python`, and 2.15 has in others.

Scripts for TensorFlow 1 that are copies of its sources, such as RNNs with attention, use them.
"""

from __future__ import annotations

import importlib
from typing import List

from graph_opt.compat.legacy_names import Replacement

_PACKAGE = "tensorflow.python."
# The module of 1.15, that of 2.15, and what moved, or (name there, name here).
_MOVED = (
    (
        "framework.ops",
        "framework.tensor_conversion_registry",
        ["register_tensor_conversion_function"],
    ),
    ("framework.ops", "framework.tensor", ["Tensor"]),
    (
        "framework.ops",
        "framework.indexed_slices",
        ["IndexedSlices", "convert_n_to_tensor_or_indexed_slices"],
    ),
    ("framework.graph_util", "framework.convert_to_constants", ["convert_variables_to_constants"]),
    ("ops.array_ops", "ops.array_ops_stack", ["stack", "unstack"]),
    ("ops.control_flow_ops", "ops.control_flow_assert", ["Assert"]),
    ("ops.control_flow_ops", "ops.control_flow_case", ["case"]),
    ("ops.control_flow_ops", "ops.control_flow_switch_case", ["switch_case"]),
    ("ops.control_flow_ops", "ops.cond", ["cond"]),
    ("ops.control_flow_ops", "ops.while_loop", ["while_loop"]),
    ("ops.functional_ops", "ops.map_fn", ["map_fn"]),
    ("ops.nn", "ops.rnn", ["dynamic_rnn", "bidirectional_dynamic_rnn"]),
    ("ops.variables", "ops.variable_v1", ["VariableV1", "is_variable_initialized"]),
    ("ops.variables", "ops.ref_variable", ["RefVariable"]),
    ("util.nest", "util.nest", [("is_nested", "is_sequence")]),
)


def moved_names() -> List[Replacement]:
    """Puts names into the modules where TensorFlow 1.15 had them, unless they are there."""
    found = []
    for place, home, names in _MOVED:
        owner, source = (importlib.import_module(_PACKAGE + name) for name in (place, home))
        for name in names:
            there, here = (name, name) if isinstance(name, str) else name
            if not hasattr(owner, here):
                found.append(Replacement(owner, here, getattr(source, there)))
    return found
