"""Every private or version-dependent TensorFlow call, once.

`tf` is `tensorflow.compat.v1`. All other rooms import it from here, so that only this room depends
on which TensorFlow is installed.
"""

from __future__ import annotations

try:
    import tensorflow.compat.v1 as tf
except ImportError as error:
    raise ImportError(
        "graph_opt needs TensorFlow 2.15.1, but no TensorFlow can be imported: "
        "install it with 'pip install graph_opt[cpu]' (or graph_opt[gpu])"
    ) from error

__all__ = ["tf"]
