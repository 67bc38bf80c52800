"""Penalties of weights, for `tf.get_variable(regularizer=...)`."""

from __future__ import annotations

import numbers
from typing import Any, Callable, Optional, Sequence

from graph_opt.compat import tf

Regularizer = Callable[[Any], Optional[tf.Tensor]]


def l1_regularizer(scale: float, scope: Optional[str] = None) -> Regularizer:
    """The sum of absolute values, times `scale`; no penalty if that is 0.0.

    Args:
      scale: A float, at least 0.
      scope: Name scope of the ops.

    Raises:
      ValueError: `scale` is negative, or an integer.
    """
    return _scaled(scale, scope, "l1_regularizer", lambda weights: tf.reduce_sum(tf.abs(weights)))


def l2_regularizer(scale: float, scope: Optional[str] = None) -> Regularizer:
    """Half the sum of squares, times `scale`; no penalty if that is 0.0.

    Args:
      scale: A float, at least 0.
      scope: Name scope of the ops.

    Raises:
      ValueError: `scale` is negative, or an integer.

    Example:
      >>> kernel = tf.get_variable("kernel", [8, 4], regularizer=l2_regularizer(1e-4))
      >>> loss += tf.losses.get_regularization_loss()
    """
    return _scaled(scale, scope, "l2_regularizer", tf.nn.l2_loss)


def l1_l2_regularizer(
    scale_l1: float = 1.0, scale_l2: float = 1.0, scope: Optional[str] = None
) -> Regularizer:
    """The sum of both.

    Args:
      scale_l1: As for `l1_regularizer`.
      scale_l2: As for `l2_regularizer`.
      scope: Name scope of the ops.
    """
    scope = scope or "l1_l2_regularizer"
    return _sum_of([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)


def sum_regularizer(
    regularizer_list: Sequence[Optional[Regularizer]], scope: Optional[str] = None
) -> Optional[Regularizer]:
    """The sum of several penalties; None if all of them are None.

    Args:
      regularizer_list: Regularizers, some of which may be None.
      scope: Name scope of the ops.
    """
    regularizers = [one for one in regularizer_list if one is not None]
    return _sum_of(regularizers, scope) if regularizers else None


def apply_regularization(
    regularizer: Regularizer, weights_list: Optional[Sequence[Any]] = None
) -> tf.Tensor:
    """The penalty of several variables, which is also added to the regularization losses.

    Args:
      regularizer: A regularizer.
      weights_list: Variables; None for those of the collection `tf.GraphKeys.WEIGHTS`.
    """
    weights = weights_list or tf.get_collection(tf.GraphKeys.WEIGHTS)
    if not weights:
        raise ValueError("apply_regularization: there are no weights to regularize")
    with tf.name_scope("get_regularization_penalty", values=weights) as scope:
        found = [one for one in map(regularizer, weights) if one is not None]
        penalty = tf.add_n(found, name=scope) if found else tf.constant(0.0)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, penalty)
        return penalty


def _sum_of(regularizers: Sequence[Regularizer], scope: Optional[str]) -> Regularizer:
    def penalty(weights: Any) -> Optional[tf.Tensor]:
        with tf.name_scope(scope, "sum_regularizer", [weights]) as name:
            found = [one for one in (each(weights) for each in regularizers) if one is not None]
            return tf.add_n(found, name=name) if found else None

    return penalty


def _scaled(
    scale: float, scope: Optional[str], name: str, norm: Callable[[Any], tf.Tensor]
) -> Regularizer:
    if isinstance(scale, numbers.Integral):
        raise ValueError("{}: scale is the integer {}; need a float".format(name, scale))
    if scale < 0.0:
        raise ValueError("{}: scale is {}; need at least 0".format(name, scale))
    if scale == 0.0:
        return lambda weights: None

    def penalty(weights: Any) -> tf.Tensor:
        with tf.name_scope(scope, name, [weights]) as inner:
            factor = tf.convert_to_tensor(scale, weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, norm(weights), name=inner)

    return penalty
