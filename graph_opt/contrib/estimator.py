"""`tf.contrib.estimator`: what it had beside `tf.estimator`."""

from __future__ import annotations

from graph_opt.compat.estimators import estimators_for
from graph_opt.contrib.files import missing_from

_estimators = estimators_for("tf.contrib.estimator")
DNNEstimator = _estimators.DNNEstimator
DNNLinearCombinedEstimator = _estimators.DNNLinearCombinedEstimator
InMemoryEvaluatorHook = _estimators.experimental.InMemoryEvaluatorHook
LinearEstimator = _estimators.LinearEstimator
add_metrics = _estimators.add_metrics
build_raw_supervised_input_receiver_fn = (
    _estimators.experimental.build_raw_supervised_input_receiver_fn
)
make_early_stopping_hook = _estimators.experimental.make_early_stopping_hook
stop_if_higher_hook = _estimators.experimental.stop_if_higher_hook
stop_if_lower_hook = _estimators.experimental.stop_if_lower_hook
stop_if_no_decrease_hook = _estimators.experimental.stop_if_no_decrease_hook
stop_if_no_increase_hook = _estimators.experimental.stop_if_no_increase_hook

__getattr__ = missing_from(
    __name__,
    {
        "binary_classification_head": "tf.estimator.BinaryClassHead",
        "clip_gradients_by_norm": "tf.clip_by_global_norm in the model_fn",
        "forward_features": "predictions of the model_fn that have the features, too",
        "logistic_regression_head": "tf.estimator.LogisticRegressionHead",
        "multi_class_head": "tf.estimator.MultiClassHead",
        "multi_head": "tf.estimator.MultiHead",
        "multi_label_head": "tf.estimator.MultiLabelHead",
        "poisson_regression_head": "tf.estimator.PoissonRegressionHead",
        "regression_head": "tf.estimator.RegressionHead",
        "*": "tf.estimator",
    },
)
