# ruff: noqa
# mypy: ignore-errors
"""RNN helpers for TensorFlow models, with attention scores for each step."""

from tensorflow.python.framework import constant_op
from tensorflow.python.framework import dtypes
from tensorflow.python.framework import ops
from tensorflow.python.framework import tensor_shape
from tensorflow.python.ops import array_ops
from tensorflow.python.ops import control_flow_ops
from tensorflow.python.ops import init_ops
from tensorflow.python.ops import math_ops
from tensorflow.python.ops import rnn_cell_impl
from tensorflow.python.ops import tensor_array_ops
from tensorflow.python.ops import variable_scope as vs
from tensorflow.python.ops.rnn_cell import *
from tensorflow.python.util import nest

_concat = rnn_cell_impl._concat


class VecAttGRUCell(RNNCell):
    """Gated Recurrent Unit cell (cf. http://arxiv.org/abs/1406.1078) with an attention score."""

    def __init__(
        self,
        num_units,
        activation=None,
        reuse=None,
        kernel_initializer=None,
        bias_initializer=None,
    ):
        super(VecAttGRUCell, self).__init__(_reuse=reuse)
        self._num_units = num_units
        self._activation = activation or math_ops.tanh
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer
        self._gate_linear = None
        self._candidate_linear = None

    @property
    def state_size(self):
        return self._num_units

    @property
    def output_size(self):
        return self._num_units

    def __call__(self, inputs, state, att_score):
        return self.call(inputs, state, att_score)

    def call(self, inputs, state, att_score=None):
        if self._gate_linear is None:
            bias_ones = self._bias_initializer
            if self._bias_initializer is None:
                bias_ones = init_ops.constant_initializer(1.0, dtype=inputs.dtype)
            with vs.variable_scope("gates"):  # Reset gate and update gate.
                self._gate_linear = _Linear(
                    [inputs, state],
                    2 * self._num_units,
                    True,
                    bias_initializer=bias_ones,
                    kernel_initializer=self._kernel_initializer,
                )
        value = math_ops.sigmoid(self._gate_linear([inputs, state]))
        r, u = array_ops.split(value=value, num_or_size_splits=2, axis=1)
        r_state = r * state
        if self._candidate_linear is None:
            with vs.variable_scope("candidate"):
                self._candidate_linear = _Linear(
                    [inputs, r_state],
                    self._num_units,
                    True,
                    bias_initializer=self._bias_initializer,
                    kernel_initializer=self._kernel_initializer,
                )
        c = self._activation(self._candidate_linear([inputs, r_state]))
        u = (1.0 - att_score) * u
        new_h = u * state + (1 - u) * c
        return new_h, new_h


def _step(time, sequence_length, zero_output, state, call_cell):
    """One step: rows whose sequences have ended keep their state, and have zeros as output."""
    output, new_state = call_cell()
    is_over = time >= sequence_length
    return (
        array_ops.where(is_over, zero_output, output),
        array_ops.where(is_over, state, new_state),
    )


def dynamic_rnn(cell, inputs, att_scores=None, sequence_length=None, dtype=None, scope=None):
    """Creates a recurrent neural network specified by RNNCell `cell`."""
    rnn_cell_impl.assert_like_rnncell("cell", cell)
    with vs.variable_scope(scope or "rnn") as varscope:
        if varscope.caching_device is None:
            varscope.set_caching_device(lambda op: op.device)
        flat_input = [ops.convert_to_tensor(x) for x in nest.flatten(inputs)]
        # (B,T,D) => (T,B,D)
        flat_input = [array_ops.transpose(x, [1, 0, 2]) for x in flat_input]
        sequence_length = array_ops.identity(
            math_ops.to_int32(sequence_length), name="sequence_length"
        )
        input_shape = array_ops.shape(flat_input[0])
        time_steps, batch_size = input_shape[0], input_shape[1]
        state = cell.zero_state(batch_size, dtype)
        zero_output = array_ops.zeros(
            _concat(batch_size, cell.output_size), dtype=flat_input[0].dtype
        )
        time = array_ops.constant(0, dtype=dtypes.int32, name="time")

        def _create_ta(name, dtype):
            return tensor_array_ops.TensorArray(
                dtype=dtype, size=time_steps, tensor_array_name=name
            )

        output_ta = _create_ta("output", flat_input[0].dtype)
        input_ta = _create_ta("input", flat_input[0].dtype).unstack(flat_input[0])
        if att_scores is not None:
            att_scores = array_ops.transpose(att_scores, perm=[1, 0, 2])

        def _time_step(time, output_ta_t, state):
            input_t = input_ta.read(time)
            input_t.set_shape(flat_input[0].shape[1:])
            if att_scores is not None:
                call_cell = lambda: cell(input_t, state, att_scores[time, :, :])
            else:
                call_cell = lambda: cell(input_t, state)
            output, new_state = _step(time, sequence_length, zero_output, state, call_cell)
            return (time + 1, output_ta_t.write(time, output), new_state)

        _, output_final_ta, final_state = control_flow_ops.while_loop(
            cond=lambda time, *_: time < time_steps,
            body=_time_step,
            loop_vars=(time, output_ta, state),
            parallel_iterations=32,
            swap_memory=False,
        )
        outputs = output_final_ta.stack()
        outputs.set_shape([None, None, cell.output_size])
        return array_ops.transpose(outputs, [1, 0, 2]), final_state
