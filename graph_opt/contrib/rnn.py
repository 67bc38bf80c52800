"""`tf.contrib.rnn`: cells, and what runs them, under the names that TensorFlow 1.15 had there."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.contrib.files import missing_from
from graph_opt.contrib.linear import _Linear as _Linear
from graph_opt.contrib.linear import _linear as _linear

_cells: Any = tf.nn.rnn_cell
BasicLSTMCell = _cells.BasicLSTMCell
BasicRNNCell = _cells.BasicRNNCell
DeviceWrapper = _cells.DeviceWrapper
DropoutWrapper = _cells.DropoutWrapper
GRUCell = _cells.GRUCell
LSTMCell = _cells.LSTMCell
LSTMStateTuple = _cells.LSTMStateTuple
MultiRNNCell = _cells.MultiRNNCell
RNNCell = _cells.RNNCell
ResidualWrapper = _cells.ResidualWrapper
static_rnn = tf.nn.static_rnn
static_bidirectional_rnn = tf.nn.static_bidirectional_rnn


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial_states_fw: Optional[Sequence[Any]] = None,
    initial_states_bw: Optional[Sequence[Any]] = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: Optional[int] = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> Any:
    """Layers of bidirectional RNNs, each of which reads both directions of the one before.

    Args:
      cells_fw: A cell for each layer, forward.
      cells_bw: Backward.
      inputs: [B, T, n], or [T, B, n] if `time_major`.
      initial_states_fw: A state for each layer; None for zeros.
      initial_states_bw: Backward.
      dtype: Of the states, if none are given.
      sequence_length: [B], or None.
      parallel_iterations: As for `tf.nn.bidirectional_dynamic_rnn`, as for the next.
      time_major: As there.
      scope: Variable scope; `stack_bidirectional_rnn` by default.
      swap_memory: As `parallel_iterations`.

    Returns:
      The last layer's outputs of both directions side by side, and the states of all layers,
      forward and backward.

    Raises:
      ValueError: There are no layers, or not as many in both directions.
    """
    if not cells_fw or len(cells_fw) != len(cells_bw):
        raise ValueError(
            "stack_bidirectional_dynamic_rnn: {} cells forward and {} backward; need as many of "
            "both, at least one".format(len(cells_fw or []), len(cells_bw or []))
        )
    states: List[Any] = []
    layers = range(len(cells_fw))
    starts_fw = initial_states_fw or [None for _ in layers]
    starts_bw = initial_states_bw or [None for _ in layers]
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for layer in layers:
            with tf.variable_scope("cell_{}".format(layer)):
                outputs, pair = tf.nn.bidirectional_dynamic_rnn(
                    cells_fw[layer],
                    cells_bw[layer],
                    inputs,
                    sequence_length=sequence_length,
                    initial_state_fw=starts_fw[layer],
                    initial_state_bw=starts_bw[layer],
                    dtype=dtype,
                    parallel_iterations=parallel_iterations,
                    swap_memory=swap_memory,
                    time_major=time_major,
                )
                inputs = tf.concat(outputs, 2)
                states.append(pair)
    return inputs, tuple(one[0] for one in states), tuple(one[1] for one in states)


def transpose_batch_time(x: Any) -> tf.Tensor:
    """Swaps the first two axes.

    Args:
      x: At least of rank 2.
    """
    x = tf.convert_to_tensor(x)
    return tf.transpose(x, tf.concat([[1, 0], tf.range(2, tf.rank(x))], 0))


__getattr__ = missing_from(
    __name__,
    {
        "CoupledInputForgetGateLSTMCell": "LSTMCell",
        "GRUBlockCell*": "GRUCell",
        "LSTMBlock*": "LSTMCell",
        "LayerNormBasicLSTMCell": "tensorflow_addons.rnn.LayerNormLSTMCell",
        "stack_bidirectional_rnn": "stack_bidirectional_dynamic_rnn",
        "*": "tf.nn.rnn_cell and tf.keras.layers",
    },
)
