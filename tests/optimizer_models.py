"""Optimizers with which each fused one is compared: at least one for every spec.

Names are those of test cases; learning rates are large enough for a few steps to move tables.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

from graph_opt.compat import tf
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.optimizers.adam_w import AdamWOptimizer
from tests.dense_optimizers import DENSE_MOVING_EVERY_ROW

STOCK: Dict[str, Callable[[], Any]] = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(
        0.1, l1_regularization_strength=0.02, l2_regularization_strength=0.01
    ),
    "ftrl_shrinkage": lambda: tf.train.FtrlOptimizer(
        0.1, learning_rate_power=-0.7, l2_shrinkage_regularization_strength=0.05
    ),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "adam_w": lambda: AdamWOptimizer(0.1, 0.01),
    "rms_prop": lambda: tf.train.RMSPropOptimizer(0.01),
    "rms_prop_momentum": lambda: tf.train.RMSPropOptimizer(0.01, decay=0.8, momentum=0.9),
    "rms_prop_centered": lambda: tf.train.RMSPropOptimizer(0.01, momentum=0.5, centered=True),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(1.0, rho=0.9, epsilon=1e-4),
    "proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1),
    "proximal_adagrad_l1_l2": lambda: tf.train.ProximalAdagradOptimizer(
        0.1, l1_regularization_strength=0.3, l2_regularization_strength=0.2
    ),
    "proximal_descent": lambda: tf.train.ProximalGradientDescentOptimizer(
        0.1, l1_regularization_strength=0.3, l2_regularization_strength=0.2
    ),
}
# Optimizers whose fused update differs from TensorFlow's from the second step on.
MOVING_EVERY_ROW = (
    *("adam", "adam_w", "amsgrad", "rms_prop_plain", "rms_prop_centered_plain"),
    *DENSE_MOVING_EVERY_ROW,
)
ROW_BY_ROW = tuple(name for name in STOCK if name not in MOVING_EVERY_ROW)
# Optimizers of tf.keras.optimizers.legacy that end in the same ops, with keywords.
KERAS: Dict[str, Tuple[str, Dict[str, Any]]] = {
    "sgd": ("SGD", {}),
    "adagrad": ("Adagrad", {}),
    "ftrl": ("Ftrl", {}),
    "adam": ("Adam", {}),
    "amsgrad": ("Adam", {"amsgrad": True}),
    "adamax": ("Adamax", {"epsilon": 1e-3}),
    "momentum": ("SGD", {"momentum": 0.9}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "rms_prop_plain": ("RMSprop", {}),
    "rms_prop_centered_plain": ("RMSprop", {"centered": True}),
    "rms_prop": ("RMSprop", {"momentum": 0.5}),
    "rms_prop_centered": ("RMSprop", {"momentum": 0.5, "centered": True}),
    "adadelta": ("Adadelta", {}),
}


def usual_cases() -> Dict[str, Tuple[str, Tuple[str, ...]]]:
    """Optimizer and flags: each optimizer without flags, and with each of its flags."""
    return {
        "-".join((spec.name, *flags)): (spec.name, flags)
        for spec in optimizer_specs().values()
        for flags in [(), *((flag,) for flag in spec.flags)]
    }
