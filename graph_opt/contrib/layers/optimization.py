"""A training step from a loss, with its summaries, in one call."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from graph_opt.compat import tf

_Pairs = List[Tuple[Any, Any]]

OPTIMIZER_CLS_NAMES: Dict[str, Callable[..., Any]] = {
    "Adagrad": tf.train.AdagradOptimizer,
    "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "Momentum": lambda learning_rate: tf.train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = (
    "learning_rate",
    "loss",
    "gradients",
    "gradient_norm",
    "global_gradient_norm",
)
_DEFAULT_SUMMARIES = ("loss", "learning_rate", "global_gradient_norm")


def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: Optional[float] = None,
    gradient_multipliers: Any = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Optional[Callable[..., Any]] = None,
    update_ops: Optional[Sequence[Any]] = None,
    variables: Optional[Sequence[Any]] = None,
    name: Optional[str] = None,
    summaries: Optional[Sequence[str]] = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> tf.Tensor:
    """Trains variables by the gradient of a loss.

    Args:
      loss: A scalar.
      global_step: The variable, or None for the graph's, if it has one.
      learning_rate: A float, which becomes the variable `learning_rate`, a scalar tensor, or None
        if the optimizer has its own.
      optimizer: One of `OPTIMIZER_CLS_NAMES`, an optimizer of `tf.train`, its class, or a function
        that makes one of a learning rate.
      gradient_noise_scale: Adds so much truncated normal noise to gradients.
      gradient_multipliers: Factors of gradients, by variable or its name.
      clip_gradients: The largest norm of all gradients together, a float, or a function of the
        pairs of gradients and variables that returns such pairs.
      learning_rate_decay_fn: From the learning rate and the global step to the one that counts.
      update_ops: What runs before; the collection `UPDATE_OPS` by default.
      variables: What is trained; all trainable variables by default.
      name: Variable scope; `OptimizeLoss` by default.
      summaries: Some of `OPTIMIZER_SUMMARIES`.
      colocate_gradients_with_ops: As of `tf.gradients`.
      increment_global_step: Whether the step counts.

    Returns:
      The loss, which trains when it is fetched.

    Raises:
      ValueError: An argument is none of these.

    Example:
      >>> train_op = tf.contrib.layers.optimize_loss(loss, global_step, 0.01, "Adagrad")
    """
    loss = tf.convert_to_tensor(loss)
    loss.shape.assert_has_rank(0)
    wanted = _checked_summaries(summaries)
    step = tf.train.get_global_step() if global_step is None else global_step
    with tf.variable_scope(name, "OptimizeLoss", [loss, step]):
        if update_ops is None:
            update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        if update_ops:
            with tf.control_dependencies(list(update_ops)):
                loss = tf.identity(loss)
        rate = _learning_rate(learning_rate)
        if rate is not None and learning_rate_decay_fn is not None:
            if step is None:
                raise ValueError("optimize_loss: learning_rate_decay_fn needs a global_step")
            rate = learning_rate_decay_fn(rate, step)
            if "learning_rate" in wanted:
                tf.summary.scalar("learning_rate", rate)
        trained_by = _optimizer(optimizer, rate)
        trained = tf.trainable_variables() if variables is None else variables
        pairs = trained_by.compute_gradients(
            loss, trained, colocate_gradients_with_ops=colocate_gradients_with_ops
        )
        if gradient_noise_scale is not None:
            pairs = [(_noisy(one, gradient_noise_scale), variable) for one, variable in pairs]
        if gradient_multipliers is not None:
            pairs = [_multiplied(pair, gradient_multipliers) for pair in pairs]
        pairs = _summarized(pairs, clip_gradients, loss, wanted)
        update = trained_by.apply_gradients(pairs, step if increment_global_step else None, "train")
        with tf.control_dependencies([update]):
            return tf.identity(loss)


def _checked_summaries(summaries: Optional[Sequence[str]]) -> Sequence[str]:
    for one in summaries or ():
        if one not in OPTIMIZER_SUMMARIES:
            raise ValueError(
                "optimize_loss: summary {!r} is none of {}".format(
                    one, ", ".join(OPTIMIZER_SUMMARIES)
                )
            )
    return _DEFAULT_SUMMARIES if summaries is None else summaries


def _learning_rate(given: Any) -> Any:
    """The learning rate as a variable, or the tensor that is given."""
    if given is None or (isinstance(given, tf.Tensor) and given.shape.rank == 0):
        return given
    if not isinstance(given, float) or given < 0:
        raise ValueError(
            "optimize_loss: learning_rate is {!r}; need a float from 0 up, or a scalar "
            "tensor".format(given)
        )
    initial = tf.constant_initializer(given)
    return tf.get_variable("learning_rate", [], trainable=False, initializer=initial)


def _optimizer(given: Any, rate: Any) -> Any:
    if isinstance(given, str):
        if given not in OPTIMIZER_CLS_NAMES:
            raise ValueError(
                "optimize_loss: optimizer {!r} is none of {}".format(
                    given, ", ".join(sorted(OPTIMIZER_CLS_NAMES))
                )
            )
        given = OPTIMIZER_CLS_NAMES[given]
    elif not isinstance(given, type) and rate is None and callable(given):
        given = given()
    if isinstance(given, tf.train.Optimizer):
        return given
    if not callable(given):
        raise ValueError("optimize_loss: optimizer is {!r}; need one of tf.train".format(given))
    if rate is None:
        raise ValueError("optimize_loss: optimizer {!r} needs a learning_rate".format(given))
    made = given(rate)
    if not isinstance(made, tf.train.Optimizer):
        raise ValueError("optimize_loss: {!r} returned {!r}, no optimizer".format(given, made))
    return made


def _noisy(gradient: Any, scale: float) -> Any:
    if gradient is None:
        return None
    slices = isinstance(gradient, tf.IndexedSlices)
    shape = gradient.dense_shape if slices else gradient.shape
    return gradient + tf.truncated_normal(shape) * scale


def _multiplied(pair: Tuple[Any, Any], factors: Any) -> Tuple[Any, Any]:
    gradient, variable = pair
    by_name = {getattr(one, "name", one): factor for one, factor in factors.items()}
    if gradient is None or variable.name not in by_name:
        return pair
    factor = tf.cast(by_name[variable.name], gradient.dtype)
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * factor
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape), variable
    return gradient * factor, variable


def _summarized(pairs: _Pairs, clip: Any, loss: tf.Tensor, wanted: Sequence[str]) -> _Pairs:
    """Clips gradients, and writes summaries of what was before and is after."""
    norms = "global_gradient_norm" in wanted or "gradient_norm" in wanted
    if norms:
        norm = tf.global_norm([gradient for gradient, _ in pairs])
        tf.summary.scalar("global_norm/gradient_norm", norm)
    clipped = _clipped(pairs, clip)
    if "loss" in wanted:
        tf.summary.scalar("loss", loss)
    for gradient, variable in clipped:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        name = variable.name.replace(":", "_")
        if values is not None and "gradients" in wanted:
            tf.summary.histogram("gradients/" + name, values)
        if values is not None and "gradient_norm" in wanted:
            tf.summary.scalar("gradient_norm/" + name, tf.global_norm([values]))
    if norms and clip is not None:
        norm = tf.global_norm([gradient for gradient, _ in clipped])
        tf.summary.scalar("global_norm/clipped_gradient_norm", norm)
    return clipped


def _clipped(pairs: _Pairs, clip: Any) -> _Pairs:
    if clip is None:
        return pairs
    if isinstance(clip, float):
        gradients, variables = zip(*pairs)
        return list(zip(tf.clip_by_global_norm(gradients, clip)[0], variables))
    if not callable(clip):
        raise ValueError("optimize_loss: clip_gradients is {!r}; need a float".format(clip))
    return list(clip(pairs))
