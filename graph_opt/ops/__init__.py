"""The compiled operations and their Python wrappers.

The compiled library is not loaded on import but by `load_library`, when an op is first needed.
Gradients are registered on import, as TensorFlow does for its own ops, so that they are available
before the first of our ops is, whichever module of this room is imported.
"""

from __future__ import annotations

from graph_opt.ops import gradients as gradients
from graph_opt.ops.library import load_library

__all__ = ["load_library"]
