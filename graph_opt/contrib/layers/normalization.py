"""Normalization by batches, and by examples."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.contrib_parts import if_true, known_bool, moved_average
from graph_opt.contrib.argument_scopes import add_arg_scope
from graph_opt.contrib.variables import Collections, layer_variable, result

_CHANNELS_LAST = ("NHWC", "NWC", "NDHWC")


class _Moments(NamedTuple):
    """The variables of inference, and those of the batch."""

    moving: Sequence[Any]
    of_batch: Sequence[Any]


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Optional[Callable[[Any], Any]] = None,
    param_initializers: Optional[Mapping[str, Any]] = None,
    param_regularizers: Optional[Mapping[str, Any]] = None,
    updates_collections: Optional[str] = tf.GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: Optional[bool] = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_decay: float = 0.99,
    adjustment: Any = None,
) -> tf.Tensor:
    """Batch normalization, with variables `beta`, `gamma`, `moving_mean` and `moving_variance`.

    Args:
      inputs: [B, ..., n].
      decay: Of the moving averages.
      center: Whether there is `beta`.
      scale: Whether there is `gamma`.
      epsilon: Added to the variance.
      activation_fn: Applied to the result.
      param_initializers: Initializers by the names of variables.
      param_regularizers: Regularizers of `beta` and `gamma`.
      updates_collections: Where the updates of the moving averages go, for the train op to wait
        for; None makes the result wait for them.
      is_training: A bool, or a tensor of one.
      reuse: Of the variable scope.
      variables_collections: A list of collections, or one for each of the variables by its name.
      outputs_collections: Collections of the result.
      trainable: Whether `beta` and `gamma` are trained.
      batch_weights: Not supported.
      fused: Accepted; inputs of rank 2 and 4 are normalized by TensorFlow's fused op unless False.
      data_format: Channels must be last.
      zero_debias_moving_mean: Whether the moving mean is corrected for its start at zero.
      scope: Variable scope; `BatchNorm` by default.
      renorm: Not supported, as the next two.
      renorm_clipping: Not supported.
      renorm_decay: Not supported.
      adjustment: Not supported.

    Returns:
      Of the shape of `inputs`.

    Raises:
      ValueError: An argument is not supported here.

    Example:
      >>> net = batch_norm(net, decay=0.9, is_training=is_training, updates_collections=None)
    """
    if batch_weights is not None or renorm or adjustment is not None:
        raise ValueError("batch_norm: batch_weights, renorm and adjustment are not supported")
    if data_format not in _CHANNELS_LAST:
        raise ValueError("batch_norm: data_format is {!r}; need 'NHWC'".format(data_format))
    with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        initial, penalty = param_initializers or {}, param_regularizers or {}

        def parameter(name: str, start: Any, trained: bool, exists: bool = True) -> Any:
            if not exists:
                return start([int(inputs.shape[-1])], tf.float32)
            return layer_variable(
                name,
                [inputs.shape[-1]],
                tf.float32,
                initial.get(name, start),
                penalty.get(name) if trained else None,
                trainable and trained,
                variables_collections,
            )

        zeros, ones = tf.zeros_initializer(), tf.ones_initializer()
        beta = parameter("beta", zeros, True, center)
        gamma = parameter("gamma", ones, True, scale)
        moving = [parameter("moving_mean", zeros, False), parameter("moving_variance", ones, False)]
        normalize = _normalize_fused if _fits_fused(inputs, fused) else _normalize
        training = known_bool(is_training)
        outputs, *of_batch = if_true(
            is_training,
            lambda: normalize(inputs, gamma, beta, None, epsilon),
            lambda: normalize(inputs, gamma, beta, moving, epsilon),
        )
        if training is None or training:
            moments = _Moments(moving, of_batch)
            debias = (zero_debias_moving_mean, False)
            outputs = _with_updates(
                outputs, moments, decay, debias, is_training, updates_collections
            )
        outputs.set_shape(inputs.shape)
        return result(outputs, activation_fn, outputs_collections)


@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Optional[Callable[[Any], Any]] = None,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> tf.Tensor:
    """Layer normalization, with variables `beta` and `gamma`.

    Args:
      inputs: [B, ..., n].
      center: Whether there is `beta`.
      scale: Whether there is `gamma`.
      activation_fn: Applied to the result.
      reuse: Of the variable scope.
      variables_collections: A list of collections, or one for each of the variables by its name.
      outputs_collections: Collections of the result.
      trainable: Whether variables are trained.
      begin_norm_axis: The first axis of those that are normalized together.
      begin_params_axis: The first axis that `beta` and `gamma` have.
      scope: Variable scope; `LayerNorm` by default.

    Returns:
      Of the shape of `inputs`.
    """
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.rank
        first = begin_norm_axis % rank
        shape = inputs.shape[begin_params_axis % rank :]

        def parameter(name: str, start: Any) -> Any:
            dtype = inputs.dtype.base_dtype
            return layer_variable(name, shape, dtype, start, None, trainable, variables_collections)

        beta = parameter("beta", tf.zeros_initializer()) if center else None
        gamma = parameter("gamma", tf.ones_initializer()) if scale else None
        mean, variance = tf.nn.moments(inputs, list(range(first, rank)), keep_dims=True)
        epsilon = 1e-3 if inputs.dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        return result(outputs, activation_fn, outputs_collections)


def _fits_fused(inputs: Any, fused: Optional[bool]) -> bool:
    return fused is not False and inputs.shape.rank in (2, 4)


def _normalize_fused(
    inputs: Any, gamma: Any, beta: Any, moments: Any, epsilon: float
) -> Tuple[Any, ...]:
    """By one op, whose variance is that of a sample, as the moving variance then is."""
    images = inputs if inputs.shape.rank == 4 else inputs[:, None, None, :]
    mean, variance = moments or (None, None)
    outputs, mean, variance = tf.nn.fused_batch_norm(
        images, gamma, beta, mean, variance, epsilon, is_training=moments is None
    )
    return (outputs if inputs.shape.rank == 4 else outputs[:, 0, 0, :]), mean, variance


def _normalize(inputs: Any, gamma: Any, beta: Any, moments: Any, epsilon: float) -> Tuple[Any, ...]:
    if moments is None:
        mean, variance = tf.nn.moments(inputs, list(range(inputs.shape.rank - 1)))
    else:
        mean, variance = [tf.identity(one) for one in moments]
    outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
    return outputs, mean, variance


def _with_updates(
    outputs: Any,
    moments: _Moments,
    decay: float,
    debias: Tuple[bool, bool],
    is_training: Any,
    updates_collections: Optional[str],
) -> Any:
    def updates() -> List[Any]:
        pairs = zip(moments.moving, moments.of_batch, debias)
        return [moved_average(old, new, decay, corrected) for old, new, corrected in pairs]

    if updates_collections is None:

        def after_updates() -> Any:
            with tf.control_dependencies(updates()):
                return tf.identity(outputs)

        return if_true(is_training, after_updates, lambda: outputs)
    kept = if_true(is_training, updates, lambda: [tf.identity(one) for one in moments.moving])
    for update in kept:
        tf.add_to_collection(updates_collections, update)
    return outputs
