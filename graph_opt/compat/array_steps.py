"""Functions of tensors that are called with arrays: eagerly, or in steps of a session."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.callables import raw_session
from graph_opt.compat.graph_lifetime import kept_with
from graph_opt.compat.live_graph import unfinalized


class ArraySteps:
    """Calls functions eagerly, or adds each to a session's graph once and runs its nodes.

    Args:
      session: None to call eagerly. Hooks of a monitored session do not see the steps.
    """

    def __init__(self, session: Optional[Any] = None) -> None:
        self._session = None if session is None else raw_session(session)

    def run(self, key: Any, function: Callable[..., Any], *arrays: Any) -> Any:
        """The results of a function, as arrays.

        Args:
          key: What the function does; in one graph equal keys must mean equal functions. All
            ranks must add their functions in the same order.
          function: Takes as many tensors, and returns tensors or an op.
          *arrays: Of the same dtypes and numbers of dimensions in each call with this key; strings
            as well.
        """
        values = [_as_array(array) for array in arrays]
        if self._session is None:
            return _as_arrays(function(*[tf.constant(value) for value in values]))
        inputs, results = self._nodes(key, function, values)
        return self._session.run(results, dict(zip(inputs, values)))

    def prepare(self, key: Any, function: Callable[..., Any], *arrays: Any) -> None:
        """Adds what `run` would add, and runs nothing."""
        if self._session is not None:
            self._nodes(key, function, [_as_array(array) for array in arrays])

    def has(self, key: Any) -> bool:
        """Whether `run` would add nothing for this key."""
        if self._session is None:
            return True
        return key in kept_with(self._session.graph, "functions of arrays", dict)

    def _nodes(self, key: Any, function: Callable[..., Any], values: Any) -> Any:
        assert self._session is not None
        graph = self._session.graph
        known: Dict[Any, Any] = kept_with(graph, "functions of arrays", dict)
        if key not in known:
            with unfinalized(graph), graph.as_default(), tf.device(None):
                with tf.control_dependencies(None), tf.name_scope("graph_opt/rows/"):
                    inputs = [tf.placeholder(_dtype(v), [None] * v.ndim) for v in values]
                    known[key] = inputs, function(*inputs)
        return known[key]


def _as_array(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


def _dtype(array: np.ndarray) -> Any:
    return tf.string if array.dtype == object else tf.as_dtype(array.dtype)


def _as_arrays(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return [_as_arrays(one) for one in result]
    return result.numpy() if tf.is_tensor(result) else None
