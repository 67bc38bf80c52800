"""`tf.contrib.framework`: scopes of arguments, and lists of variables."""

from __future__ import annotations

import re
from typing import Any, List, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.contrib.argument_scopes import add_arg_scope, arg_scope

__all__ = [
    "add_arg_scope",
    "arg_scope",
    "argsort",
    "get_global_step",
    "get_model_variables",
    "get_or_create_global_step",
    "get_trainable_variables",
    "get_variables",
    "get_variables_by_name",
    "get_variables_to_restore",
    "init_from_checkpoint",
    "is_tensor",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "nest",
    "sort",
]

argsort, sort = tf.argsort, tf.sort
get_global_step = tf.train.get_global_step
get_or_create_global_step = tf.train.get_or_create_global_step
init_from_checkpoint = tf.train.init_from_checkpoint
is_tensor = tf.is_tensor
list_variables = tf.train.list_variables
load_checkpoint = tf.train.load_checkpoint
nest = tf.nest


def load_variable(checkpoint_dir: str, name: str) -> np.ndarray:
    """The value of a variable of a checkpoint.

    Args:
      checkpoint_dir: A checkpoint, or the folder of some.
      name: Of the variable.
    """
    return np.asarray(tf.train.load_variable(checkpoint_dir, name))


def get_variables(
    scope: Any = None,
    suffix: Optional[str] = None,
    collection: str = tf.GraphKeys.GLOBAL_VARIABLES,
) -> List[Any]:
    """Variables of a collection.

    Args:
      scope: What their names begin with, or a variable scope.
      suffix: What their names end with, without the `:0`.
      collection: The collection.
    """
    prefix = scope.name if isinstance(scope, tf.VariableScope) else scope
    if suffix is not None:
        prefix = "{}.*{}$".format(prefix or "", re.escape(":0" if not suffix else suffix + ":0"))
    return list(tf.get_collection(collection, prefix))


def get_model_variables(scope: Any = None, suffix: Optional[str] = None) -> List[Any]:
    """Variables that layers have made; see `get_variables`."""
    return get_variables(scope, suffix, tf.GraphKeys.MODEL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: Optional[str] = None) -> List[Any]:
    """Variables that are trained; see `get_variables`."""
    return get_variables(scope, suffix, tf.GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_name(given_name: str, scope: Any = None) -> List[Any]:
    """Variables whose names end with a name, after a slash or alone.

    Args:
      given_name: The name, without scopes.
      scope: What their names begin with, or a variable scope.
    """
    return [
        one for one in get_variables(scope) if ("/" + str(one.op.name)).endswith("/" + given_name)
    ]


def get_variables_to_restore(include: Any = None, exclude: Any = None) -> List[Any]:
    """All variables, or some.

    Args:
      include: What names begin with; a list, or None for all.
      exclude: Of these, what names must not begin with.
    """
    found = [one for scope in (include or [None]) for one in get_variables(scope)]
    left_out = {one.ref() for scope in (exclude or []) for one in get_variables(scope)}
    return [one for one in found if one.ref() not in left_out]
