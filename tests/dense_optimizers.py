"""Optimizers of scripts that make the gradients of tables as large as the tables."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from graph_opt.compat import tf
from tests.release_features import keras_optimizers

PENALTY = 0.02  # With momentum, more makes idle rows swing through 0, all columns at once.


class AdamWeightDecayOptimizer(tf.train.Optimizer):
    """BERT's AdamW, as its scripts have it."""

    def __init__(self, learning_rate: Any, weight_decay_rate: float = 0.0) -> None:
        super().__init__(False, "AdamWeightDecayOptimizer")
        self.learning_rate = learning_rate
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = 0.9
        self.beta_2 = 0.999
        self.epsilon = 1e-6

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        """One step."""
        assignments: List[Any] = []
        for grad, param in grads_and_vars:
            if grad is None or param is None:
                continue
            m, v = (self._zeros(param, kind) for kind in ("adam_m", "adam_v"))
            next_m = tf.multiply(self.beta_1, m) + tf.multiply(1.0 - self.beta_1, grad)
            next_v = tf.multiply(self.beta_2, v) + tf.multiply(1.0 - self.beta_2, tf.square(grad))
            update = next_m / (tf.sqrt(next_v) + self.epsilon)
            if self.weight_decay_rate:
                update += self.weight_decay_rate * param
            update_with_lr = self.learning_rate * update
            next_param = param - update_with_lr
            assignments.extend([param.assign(next_param), m.assign(next_m), v.assign(next_v)])
        return tf.group(*assignments, name=name)

    def _zeros(self, param: Any, kind: str) -> Any:
        return tf.get_variable(
            name="{}/{}".format(param.op.name, kind),
            shape=param.shape.as_list(),
            dtype=tf.float32,
            trainable=False,
            initializer=tf.zeros_initializer(),
            use_resource=param.dtype == param.dtype.base_dtype,
        )


class KerasOptimizer:
    """One of keras_optimizers() that gets its gradients as tensors."""

    def __init__(self, optimizer: str, penalty: float = 0.0, **options: Any) -> None:
        self._penalty = penalty
        self._optimizer = getattr(keras_optimizers(), optimizer)(0.1, **options)

    def minimize(self, loss: Any) -> Any:
        """One step."""
        variables = tf.trainable_variables()
        penalty = self._penalty and self._penalty * tf.add_n(list(map(tf.nn.l2_loss, variables)))
        found = tf.gradients(loss + penalty, variables)
        gradients = [tf.convert_to_tensor(one) for one in found]
        return self._optimizer.apply_gradients(zip(gradients, variables))


def densified(optimizer: Any, penalty: float = 0.0) -> Any:
    """The optimizer, which gets gradients as tensors; with the gradient of a penalty if wanted."""
    compute = optimizer.compute_gradients

    def compute_gradients(*args: Any, **keywords: Any) -> List[Any]:
        found = [(tf.convert_to_tensor(grad), var) for grad, var in compute(*args, **keywords)]
        return [(grad + penalty * var if penalty else grad, var) for grad, var in found]

    optimizer.compute_gradients = compute_gradients
    return optimizer


def penalized(optimizer: Any) -> Any:
    """The optimizer, which also minimizes the squares of all weights."""
    minimize = optimizer.minimize

    def minimize_both(loss: Any) -> Any:
        squares = [tf.nn.l2_loss(variable) for variable in tf.trainable_variables()]
        return minimize(loss + PENALTY * tf.add_n(squares))

    optimizer.minimize = minimize_both
    return optimizer


DENSE: Dict[str, Callable[[], Any]] = {
    "dense_sgd": lambda: densified(tf.train.GradientDescentOptimizer(0.1)),
    "dense_adagrad": lambda: densified(tf.train.AdagradOptimizer(0.1)),
    "dense_sgd_l2": lambda: densified(tf.train.GradientDescentOptimizer(0.1), PENALTY),
    "penalized_sgd": lambda: penalized(tf.train.GradientDescentOptimizer(0.1)),
    "dense_momentum": lambda: densified(tf.train.MomentumOptimizer(0.1, 0.9)),
    "dense_nesterov": lambda: densified(tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)),
    "dense_adam": lambda: densified(tf.train.AdamOptimizer(0.01)),
    "penalized_momentum": lambda: penalized(tf.train.MomentumOptimizer(0.1, 0.9)),
    "penalized_nesterov": lambda: penalized(
        tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)
    ),
    "dense_keras_momentum": lambda: KerasOptimizer("SGD", momentum=0.9),
    "dense_keras_nesterov": lambda: KerasOptimizer("SGD", momentum=0.9, nesterov=True),
    "penalized_keras_momentum": lambda: KerasOptimizer("SGD", PENALTY, momentum=0.9),
    "penalized_keras_nesterov": lambda: KerasOptimizer("SGD", PENALTY, momentum=0.9, nesterov=True),
    "dense_keras_amsgrad": lambda: KerasOptimizer("Adam", amsgrad=True),
    "adam_weight_decay": lambda: AdamWeightDecayOptimizer(0.01, weight_decay_rate=0.1),
    "adam_without_weight_decay": lambda: AdamWeightDecayOptimizer(0.01),
}
OF_RESOURCES = tuple(name for name in DENSE if "keras" in name)
# Those that move rows without gradient in the first step already.
SHRINKING = (
    *("dense_sgd_l2", "adam_weight_decay"),
    *(name for name in DENSE if name.startswith("penalized")),
)
DENSE_MOVING_EVERY_ROW = tuple(name for name in DENSE if name not in ("dense_sgd", "dense_adagrad"))
