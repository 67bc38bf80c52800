"""`tf.contrib.metrics`: `tf.metrics` with predictions before labels."""

from __future__ import annotations

import functools
from typing import Any, Callable

from graph_opt.compat import tf
from graph_opt.contrib.files import missing_from


def _predictions_first(metric: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(metric)
    def streaming(predictions: Any, labels: Any, *arguments: Any, **named: Any) -> Any:
        return metric(labels, predictions, *arguments, **named)

    return streaming


streaming_accuracy = _predictions_first(tf.metrics.accuracy)
streaming_auc = _predictions_first(tf.metrics.auc)
streaming_mean = tf.metrics.mean
streaming_mean_absolute_error = _predictions_first(tf.metrics.mean_absolute_error)
streaming_mean_squared_error = _predictions_first(tf.metrics.mean_squared_error)
streaming_precision = _predictions_first(tf.metrics.precision)
streaming_recall = _predictions_first(tf.metrics.recall)
streaming_root_mean_squared_error = _predictions_first(tf.metrics.root_mean_squared_error)


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: Any = None) -> tf.Tensor:
    """The share of predictions that are right, of one batch.

    Args:
      predictions: Of the type and shape of labels.
      labels: Integers, bools or strings.
      weights: None, or floats.
      name: Name of the op.

    Raises:
      ValueError: Labels are of another type, or predictions are not of theirs.
    """
    if not (labels.dtype.is_integer or labels.dtype in (tf.bool, tf.string)):
        raise ValueError(
            "accuracy: labels are {}; need integers, bools or strings".format(labels.dtype.name)
        )
    if predictions.dtype != labels.dtype:
        raise ValueError(
            "accuracy: predictions are {}, labels {}".format(
                predictions.dtype.name, labels.dtype.name
            )
        )
    with tf.name_scope(name, "accuracy", [predictions, labels]):
        right = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(right)
        return tf.reduce_sum(right * weights) / tf.reduce_sum(weights * tf.ones_like(right))


__getattr__ = missing_from(__name__, {"*": "tf.metrics"})
