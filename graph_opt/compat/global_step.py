"""The tensor by which TensorFlow's hooks and Estimators read the global step."""

from __future__ import annotations

from typing import Any, Optional

from tensorflow.python.training import training_util

from graph_opt.compat import tf


def read_of_global_step(graph: Any, tensor: Any) -> Optional[str]:
    """The global step's variable, if this is the tensor by which hooks read it; else None.

    It is the variable's value behind a test whether it is initialized.

    Args:
      graph: A `tf.Graph`.
      tensor: A tensor of it.
    """
    reads = graph.get_collection(training_util.GLOBAL_STEP_READ_KEY)
    if not any(read is tensor for read in reads):
        return None
    variable = tf.train.get_global_step(graph)
    return None if variable is None else str(variable.op.name)
