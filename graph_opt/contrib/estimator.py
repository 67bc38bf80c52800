"""`tf.contrib.estimator`: what it had beside `tf.estimator`."""

from __future__ import annotations

from graph_opt.compat import tf

InMemoryEvaluatorHook = tf.estimator.experimental.InMemoryEvaluatorHook
add_metrics = tf.estimator.add_metrics
make_early_stopping_hook = tf.estimator.experimental.make_early_stopping_hook
stop_if_higher_hook = tf.estimator.experimental.stop_if_higher_hook
stop_if_lower_hook = tf.estimator.experimental.stop_if_lower_hook
stop_if_no_decrease_hook = tf.estimator.experimental.stop_if_no_decrease_hook
stop_if_no_increase_hook = tf.estimator.experimental.stop_if_no_increase_hook
