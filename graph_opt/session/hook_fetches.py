"""What hooks are going to fetch, as far as it shows before the session opens."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List

from graph_opt.compat import tf


def fetched_by(hooks: Iterable[Any]) -> List[Any]:
    """The tensors and operations that hooks keep in their attributes.

    `LoggingTensorHook` has its tensors there once its `begin` was called, and so have the other
    hooks of TensorFlow and most that people write. Hooks that hooks wrap are looked into.

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
    seen: Dict[int, Any] = {}  # keeps what it has seen, so that no other object gets its id
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
