"""Every version-dependent or private TensorFlow call, once.

`tf` is `tensorflow.compat.v1`: all other rooms take it from here, so that which TensorFlow is
installed is decided in one place.
"""

from __future__ import annotations

try:
    import tensorflow.compat.v1 as tf
except ImportError as error:
    raise ImportError(
        "graph_opt needs TensorFlow 2.15.1 and none can be imported: "
        "install it with 'pip install graph_opt[cpu]' (or graph_opt[gpu])"
    ) from error

__all__ = ["tf"]
