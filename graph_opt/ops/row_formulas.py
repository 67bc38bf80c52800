"""Updates of rows in TensorFlow's own ops, of optimizers for which TensorFlow has none.

Fused ops do the same. These are for tables that fused ops do not take, and for exported graphs.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.train_optimizers import set_rows

# From hyperparameters, in the order of the spec, gradient, weights and slots of some rows to their
# new weights and slots.
Formula = Callable[
    [Sequence[tf.Tensor], tf.Tensor, tf.Tensor, Sequence[tf.Tensor]], Tuple[tf.Tensor, ...]
]


def update_rows_by_formula(
    optimizer: str,
    variables: Sequence[Any],
    hyperparameters: Sequence[tf.Tensor],
    rows: tf.Tensor,
    gradients: tf.Tensor,
) -> Any:
    """Updates rows, each once, by the sum of its gradients.

    Args:
      optimizer: A key of `FORMULAS`.
      variables: The table, then its slots.
      hyperparameters: Scalars of the table's dtype, in the order of the optimizer's spec.
      rows: [n], with duplicates.
      gradients: [n, ...].

    Returns:
      The operation; None eagerly.
    """
    unique, places = tf.unique(rows)
    summed = tf.math.unsorted_segment_sum(gradients, places, tf.size(unique))
    old = [tf.gather(one, unique) for one in variables]
    new = FORMULAS[optimizer](hyperparameters, summed, old[0], old[1:])
    return tf.group(*[set_rows(one, unique, value) for one, value in zip(variables, new)])


def _adam(values: Any, gradient: Any, weights: Any, slots: Any) -> Tuple[tf.Tensor, ...]:
    learning_rate, beta1, beta2, epsilon, beta1_power, beta2_power = values
    rate = learning_rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = slots[0] * beta1 + gradient * (1 - beta1)
    v = slots[1] * beta2 + gradient * gradient * (1 - beta2)
    return weights - rate * m / (tf.sqrt(v) + epsilon), m, v


def _rms_prop(values: Any, gradient: Any, weights: Any, slots: Any) -> Tuple[tf.Tensor, ...]:
    learning_rate, rho, momentum, epsilon = values
    mean_square = slots[0] * rho + gradient * gradient * (1 - rho)
    moment = slots[1] * momentum + learning_rate * gradient / tf.sqrt(mean_square + epsilon)
    return weights - moment, mean_square, moment


def adagrad_decay(values: Any, gradient: Any, weights: Any, slots: Any) -> Tuple[tf.Tensor, ...]:
    """Adagrad whose accumulators shrink once for each power that they are behind."""
    rate, decay, initial, due = values
    accumulator, power = slots
    decays = due > power
    shrunk = tf.where(decays, tf.maximum(accumulator * decay, initial), accumulator)
    shrunk += gradient * gradient
    power += tf.cast(decays, weights.dtype)
    return weights - rate * gradient / tf.sqrt(shrunk), shrunk, power


FORMULAS: Dict[str, Formula] = {
    "Adam": _adam,
    "AdagradDecay": adagrad_decay,
    "RMSProp": _rms_prop,
}
