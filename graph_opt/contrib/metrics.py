"""`tf.contrib.metrics`: `tf.metrics` with predictions before labels."""

from __future__ import annotations

import functools
from typing import Any, Callable

from graph_opt.compat import tf


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
