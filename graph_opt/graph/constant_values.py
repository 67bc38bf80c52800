"""What constants hold."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.elided_values import is_elided


def constant_value(node: Any) -> Optional[np.ndarray]:
    """The value of a Const; None if it was left out of what was read.

    Raises:
      tf.errors.InvalidArgumentError: It has none, as in a damaged file.
    """
    if is_elided(node):
        return None
    try:
        value: np.ndarray = tf.make_ndarray(node.attr["value"].tensor)
    except (TypeError, ValueError) as error:
        text = "constant '{}' has no value: {}".format(node.name, error)
        raise tf.errors.InvalidArgumentError(None, None, text) from error
    return value
