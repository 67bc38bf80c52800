"""The compiled operations and their Python wrappers.

Nothing is loaded on import: `load_library` loads the compiled library when an op is first needed.
"""

from __future__ import annotations

from graph_opt.ops.library import load_library

__all__ = ["load_library"]
