"""What hooks are going to fetch, as far as can be told before the session opens."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List

from graph_opt.compat import tf


def fetched_by(hooks: Iterable[Any]) -> List[Any]:
    """The tensors and operations that hooks hold in their attributes.

    `LoggingTensorHook` holds its tensors there once its `begin` has been called, as do TensorFlow's
    other hooks and most that people write. Hooks wrapped by other hooks are included.

    Args:
      hooks: `SessionRunHook` objects.

    Example:
      >>> hook = tf.train.LoggingTensorHook({"row": row}, every_n_iter=100)
      >>> hook.begin()
      >>> fetched_by([hook])
      [<tf.Tensor 'staged/TensorBufferTake:2' shape=(?,) dtype=int64>]
    """
    found: List[Any] = []
    pending: List[Any] = list(hooks)
    seen: Dict[int, Any] = {}  # keeps objects alive, so that no other object reuses their id
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, (tf.Tensor, tf.Operation)):
            found.append(value)
        elif isinstance(value, (tf.SparseTensor, tf.RaggedTensor)):
            pending.extend(tf.nest.flatten(value, expand_composites=True))
        else:
            pending.extend(_inside(value))
    return found


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, tf.train.SessionRunHook):
        return list(vars(value).values())
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    return ()
