"""`tf.contrib.slim`: what scripts of recommenders use of it, which is also in other parts."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.contrib.argument_scopes import add_arg_scope, arg_scope
from graph_opt.contrib.files import missing_from
from graph_opt.contrib.framework import (
    get_model_variables,
    get_or_create_global_step,
    get_trainable_variables,
    get_variables,
    get_variables_by_name,
    get_variables_to_restore,
    model_variable,
    variable,
)
from graph_opt.contrib.layers import (
    batch_norm,
    dropout,
    flatten,
    fully_connected,
    l1_l2_regularizer,
    l1_regularizer,
    l2_regularizer,
    layer_norm,
    linear,
    one_hot_encoding,
    relu,
    repeat,
    stack,
    variance_scaling_initializer,
    xavier_initializer,
)

losses = tf.losses

__all__ = [
    "add_arg_scope",
    "arg_scope",
    "batch_norm",
    "dropout",
    "flatten",
    "fully_connected",
    "get_model_variables",
    "get_or_create_global_step",
    "get_trainable_variables",
    "get_variables",
    "get_variables_by_name",
    "get_variables_to_restore",
    "l1_l2_regularizer",
    "l1_regularizer",
    "l2_regularizer",
    "layer_norm",
    "linear",
    "losses",
    "model_variable",
    "one_hot_encoding",
    "relu",
    "repeat",
    "stack",
    "variable",
    "variance_scaling_initializer",
    "xavier_initializer",
]

__getattr__ = missing_from(__name__, {"*": "the package tf_slim"})
