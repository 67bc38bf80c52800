"""Every private or version-dependent TensorFlow call, once.

`tf` is `tensorflow.compat.v1`. All other rooms import it from here, so that only this room depends
on which TensorFlow is installed.
"""

from __future__ import annotations

try:
    import tensorflow.compat.v1 as tf
except ImportError as error:
    raise ImportError(
        "graph_opt needs TensorFlow, but none can be imported: install the supported release with "
        "'pip install graph_opt[cpu]' (or graph_opt[gpu])"
    ) from error

__all__ = ["tf"]
