"""Dense layers, and what stands between them."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.contrib_parts import if_true
from graph_opt.contrib.argument_scopes import add_arg_scope
from graph_opt.contrib.layers.initializers import xavier_initializer
from graph_opt.contrib.variables import Collections, layer_variable, result

_ZEROS = tf.zeros_initializer()


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Optional[Callable[[Any], Any]] = tf.nn.relu,
    normalizer_fn: Optional[Callable[..., Any]] = None,
    normalizer_params: Optional[Mapping[str, Any]] = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = _ZEROS,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> tf.Tensor:
    """A dense layer, with variables `weights` and `biases`.

    Args:
      inputs: [..., n].
      num_outputs: Number of units.
      activation_fn: Applied to the result; None for none.
      normalizer_fn: Applied before the activation, in place of biases.
      normalizer_params: Its arguments.
      weights_initializer: Of the weights; None for `xavier_initializer()`.
      weights_regularizer: Of the weights.
      biases_initializer: Of the biases; None for a layer without biases.
      biases_regularizer: Of the biases.
      reuse: Of the variable scope.
      variables_collections: A list of collections, or one for each of the variables by its name.
      outputs_collections: Collections of the result.
      trainable: Whether variables are trained.
      scope: Variable scope; `fully_connected` by default.

    Returns:
      [..., num_outputs].

    Example:
      >>> net = fully_connected(net, 64, weights_regularizer=l2_regularizer(1e-4), scope="mlp0")
    """
    if not isinstance(num_outputs, int):
        raise ValueError("fully_connected: num_outputs is {!r}; need an int".format(num_outputs))
    with tf.variable_scope(scope, "fully_connected", [inputs], reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        width, dtype = inputs.shape[-1], inputs.dtype.base_dtype
        if tf.dimension_value(width) is None:
            raise ValueError("fully_connected: the last dimension of the inputs is not known")
        make = functools.partial(
            layer_variable, dtype=dtype, trainable=trainable, collections=variables_collections
        )
        weights = make(
            "weights",
            [width, num_outputs],
            initializer=weights_initializer or xavier_initializer(),
            regularizer=weights_regularizer,
        )
        outputs = _times(inputs, weights)
        if normalizer_fn is not None:
            outputs = normalizer_fn(outputs, **(normalizer_params or {}))
        elif biases_initializer is not None:
            biases = make(
                "biases",
                [num_outputs],
                initializer=biases_initializer,
                regularizer=biases_regularizer,
            )
            outputs = tf.nn.bias_add(outputs, biases)
        return result(outputs, activation_fn, outputs_collections)


linear = functools.partial(fully_connected, activation_fn=None)
relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=tf.nn.relu6)


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: Any = None,
    seed: Optional[int] = None,
) -> tf.Tensor:
    """Drops values while the model is trained, and scales the others.

    Args:
      inputs: Any tensor.
      keep_prob: The part of the values that stays.
      noise_shape: As for `tf.nn.dropout`.
      is_training: A bool, or a tensor of one.
      outputs_collections: Collections of the result.
      scope: Variable scope; `Dropout` by default.
      seed: Seed of the random numbers.
    """
    with tf.variable_scope(scope, "Dropout", [inputs]):

        def dropped() -> tf.Tensor:
            return tf.nn.dropout(inputs, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed)

        outputs = tf.identity(if_true(is_training, dropped, lambda: tf.identity(inputs)))
        return result(outputs, None, outputs_collections)


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> tf.Tensor:
    """All dimensions but the first as one.

    Args:
      inputs: [B, ...].
      outputs_collections: Collections of the result.
      scope: Name scope of the ops.
    """
    with tf.name_scope(scope, "Flatten", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        width = inputs.shape[1:].num_elements()
        first = tf.shape(inputs)[0]
        flat = tf.reshape(inputs, tf.stack([first, -1 if width is None else width]))
        flat.set_shape([inputs.shape[0], width])
        return result(flat, None, outputs_collections)


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: Any = None,
) -> tf.Tensor:
    """Labels as vectors.

    Args:
      labels: [B] integers.
      num_classes: Length of the vectors.
      on_value: In the label's place.
      off_value: In all others.
      outputs_collections: Collections of the result.
      scope: Name scope of the ops.
    """
    with tf.name_scope(scope, "OneHotEncoding", [labels, num_classes]):
        labels = tf.cast(labels, tf.int64)
        encoded = tf.one_hot(labels, num_classes, on_value, off_value)
        return result(encoded, None, outputs_collections)


def stack(inputs: Any, layer: Callable[..., Any], stack_args: Sequence[Any], **kwargs: Any) -> Any:
    """One layer after the other, in scopes `<name>_1`, `<name>_2`, ...

    Args:
      inputs: Of the first.
      layer: A layer, such as `fully_connected`.
      stack_args: For each layer its argument, or a tuple of its arguments.
      **kwargs: Arguments that all of them get; `scope` is the scope around them and their name,
        `Stack` and the function's name by default.

    Example:
      >>> net = stack(net, fully_connected, [64, 32, 1], scope="mlp")
    """
    given = [one if isinstance(one, (list, tuple)) else [one] for one in stack_args]
    return _one_after_the_other(inputs, layer, given, "Stack", kwargs)


def repeat(
    inputs: Any, repetitions: int, layer: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """The same layer several times; scopes are as in `stack`, `Repeat` by default.

    Args:
      inputs: Of the first.
      repetitions: How many there are.
      layer: A layer, such as `fully_connected`.
      *args: Arguments that all of them get.
      **kwargs: See `stack`.
    """
    return _one_after_the_other(inputs, layer, [args] * repetitions, "Repeat", kwargs)


def _one_after_the_other(
    inputs: Any,
    layer: Callable[..., Any],
    arguments: Sequence[Sequence[Any]],
    default_scope: str,
    named: Dict[str, Any],
) -> Any:
    scope = named.pop("scope", None)
    with tf.variable_scope(scope, default_scope, [inputs]):
        name = getattr(layer, "func", layer).__name__ if scope is None else scope
        for number, given in enumerate(arguments, 1):
            inputs = layer(inputs, *given, scope="{}_{}".format(name, number), **named)
        return inputs


def _times(inputs: Any, weights: Any) -> tf.Tensor:
    if inputs.shape.rank == 2:
        return tf.matmul(inputs, weights)
    return tf.tensordot(inputs, tf.convert_to_tensor(weights), [[inputs.shape.rank - 1], [0]])
