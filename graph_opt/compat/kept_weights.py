"""DeepRec's `keep_weights` of variable scopes: bfloat16 layers over float32 variables."""

from __future__ import annotations

from typing import Any, List

from tensorflow.python.ops import variable_scope

from graph_opt.compat import tf
from graph_opt.compat.legacy_names import Replacement


def keep_weights(scope: Any, dtype: Any = tf.float32) -> Any:
    """Lets a scope make variables of another type where layers ask for bfloat16.

    Layers compute with bfloat16, and optimizers update what the variables keep. Variables of other
    types are as they are asked for.

    Args:
      scope: A `tf.variable_scope` that is not entered yet; its custom getter is replaced.
      dtype: That of the variables.

    Returns:
      The scope.

    Example:
      >>> with tf.variable_scope("dnn").keep_weights(dtype=tf.float32):
      ...     hidden = tf.layers.dense(tf.cast(inputs, tf.bfloat16), 256)
    """

    def in_dtype(getter: Any, name: str, *arguments: Any, **named: Any) -> Any:
        if named.get("dtype") != tf.bfloat16:
            return getter(name, *arguments, **named)
        variable = getter(name, *arguments, **dict(named, dtype=dtype))
        with tf.name_scope(None):
            return tf.cast(variable, tf.bfloat16, name=name + "/cast")

    scope._custom_getter = in_dtype
    return scope


def scope_methods() -> List[Replacement]:
    """Puts `keep_weights` on `tf.variable_scope`."""
    return [Replacement(variable_scope.variable_scope, "keep_weights", keep_weights)]
