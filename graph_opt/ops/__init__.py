"""The compiled operations and their Python wrappers.

Nothing is loaded on import: `load_library` loads the compiled library when an op is first needed.
Gradients are registered on import, as TensorFlow does with those of its own ops: whatever of this
room is imported, they are there before the first op of ours is.
"""

from __future__ import annotations

from graph_opt.ops import gradients as gradients
from graph_opt.ops.library import load_library

__all__ = ["load_library"]
