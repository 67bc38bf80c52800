"""`_Linear`, which cells in scripts are made of."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import tf


class _Linear:
    """A linear map of several inputs side by side, with variables `kernel` and `bias`.

    Args:
      args: A tensor [B, n], or a list of them.
      output_size: Number of columns of the result.
      build_bias: Whether there is a bias.
      bias_initializer: Of the bias; zeros by default.
      kernel_initializer: Of the kernel; that of the variable scope by default.

    Raises:
      ValueError: There are no inputs, or one is no matrix of known width.
    """

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        inputs = _as_list(args)
        if not inputs:
            raise ValueError("_Linear: args is empty")
        width = 0
        for one in inputs:
            if one.shape.rank != 2 or tf.dimension_value(one.shape[1]) is None:
                raise ValueError(
                    "_Linear: an input has the shape {}; need [B, n]".format(one.shape)
                )
            width += int(one.shape[1])
        dtype = inputs[0].dtype
        self._build_bias = build_bias
        with tf.variable_scope(tf.get_variable_scope()) as scope:
            self._weights = tf.get_variable(
                "kernel", [width, output_size], dtype, kernel_initializer
            )
            if build_bias:
                with tf.variable_scope(scope) as inner:
                    inner.set_partitioner(None)
                    start = bias_initializer or tf.constant_initializer(0.0, dtype=dtype)
                    self._biases = tf.get_variable("bias", [output_size], dtype, start)

    def __call__(self, args: Any) -> tf.Tensor:
        """The map of inputs like those that it was made for."""
        inputs = _as_list(args)
        joined = inputs[0] if len(inputs) == 1 else tf.concat(inputs, 1)
        result = tf.matmul(joined, self._weights)
        return tf.nn.bias_add(result, self._biases) if self._build_bias else result


def _linear(
    args: Any,
    output_size: int,
    bias: bool,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
) -> tf.Tensor:
    """A `_Linear` that is used once."""
    return _Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)


def _as_list(args: Any) -> List[Any]:
    return list(args) if isinstance(args, (list, tuple)) else [args]
