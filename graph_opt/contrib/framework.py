"""`tf.contrib.framework`: scopes of arguments, and lists of variables."""

from __future__ import annotations

import re
from typing import Any, Callable, List, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.contrib_parts import deprecated, nested
from graph_opt.compat.tensor_keys import key_of
from graph_opt.contrib.argument_scopes import add_arg_scope, arg_scope, has_arg_scope
from graph_opt.contrib.files import missing_from
from graph_opt.contrib.variables import layer_variable

__all__ = [
    "add_arg_scope",
    "arg_scope",
    "argsort",
    "assert_global_step",
    "assign_from_checkpoint_fn",
    "create_global_step",
    "deprecated",
    "get_global_step",
    "get_model_variables",
    "get_or_create_global_step",
    "get_trainable_variables",
    "get_variables",
    "get_variables_by_name",
    "get_variables_to_restore",
    "has_arg_scope",
    "init_from_checkpoint",
    "is_tensor",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "model_variable",
    "nest",
    "sort",
    "variable",
]

argsort, sort = tf.argsort, tf.sort
assert_global_step = tf.train.assert_global_step
create_global_step = tf.train.create_global_step
get_global_step = tf.train.get_global_step
get_or_create_global_step = tf.train.get_or_create_global_step
init_from_checkpoint = tf.train.init_from_checkpoint
is_tensor = tf.is_tensor
list_variables = tf.train.list_variables
load_checkpoint = tf.train.load_checkpoint
nest = nested


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
    left_out = {key_of(one) for scope in (exclude or []) for one in get_variables(scope)}
    return [one for one in found if key_of(one) not in left_out]


@add_arg_scope
def variable(
    name: str, shape: Any = None, dtype: Any = None, *, device: Any = "", **named: Any
) -> Any:
    """`tf.get_variable` on a device.

    Args:
      name: As for `tf.get_variable`, as for the next two.
      shape: As there.
      dtype: As there.
      device: Of the variable; that of the scope by default.
      **named: Other arguments of `tf.get_variable`.
    """
    with tf.device(device or None):
        return tf.get_variable(name, shape, dtype, **named)


@add_arg_scope
def model_variable(
    name: str,
    shape: Any = None,
    dtype: Any = tf.float32,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    *,
    device: Any = "",
) -> Any:
    """A variable that is also one of the collection `tf.GraphKeys.MODEL_VARIABLES`.

    Args:
      name: As for `tf.get_variable`, as for the next five.
      shape: As there.
      dtype: As there.
      initializer: As there.
      regularizer: As there.
      trainable: As there.
      collections: Further ones.
      device: Of the variable; that of the scope by default.
    """
    with tf.device(device or None):
        return layer_variable(name, shape, dtype, initializer, regularizer, trainable, collections)


def assign_from_checkpoint_fn(
    model_path: str,
    var_list: Any,
    ignore_missing_vars: bool = False,
    reshape_variables: bool = False,
) -> Optional[Callable[[Any], None]]:
    """A function that restores variables in the session that it is called with.

    Args:
      model_path: The checkpoint.
      var_list: Variables, or from names in the checkpoint to variables.
      ignore_missing_vars: Whether to pass over those that the checkpoint does not have; None is
        returned if it has none.
      reshape_variables: Whether to restore variables of another shape and the same size.

    Raises:
      ValueError: There are no variables.
    """
    if not var_list:
        raise ValueError("assign_from_checkpoint_fn: var_list is empty")
    if ignore_missing_vars:
        reader = tf.train.load_checkpoint(model_path)
        named = var_list if isinstance(var_list, dict) else {one.op.name: one for one in var_list}
        var_list = {name: one for name, one in named.items() if reader.has_tensor(name)}
    if not var_list:
        return None
    saver = tf.train.Saver(var_list, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)


__getattr__ = missing_from(
    __name__,
    {
        "VariableDeviceChooser": "tf.train.replica_device_setter",
        "assign_from_*": "assign_from_checkpoint_fn",
        "assert_*": "tf.debugging",
        "zero_initializer": "tf.zeros_initializer",
        "global_variable": "tf.get_variable",
        "local_variable": "tf.get_local_variable",
        "*": "tf and tf.train",
    },
)
