"""Scripts with a copy of TensorFlow 1's `rnn.py` find the private names that it imports."""

from __future__ import annotations

import importlib
from typing import Any, Dict

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.moved_names import MOVED_MODULES, parts_of_version_1

# What DIEN's copy of rnn.py and its cells are made of.
COPY = """
from tensorflow.contrib.rnn.python.ops.core_rnn_cell import _Linear
from tensorflow.python.framework import constant_op, dtypes, ops, tensor_shape
from tensorflow.python.ops import array_ops, control_flow_ops, math_ops, rnn_cell_impl
from tensorflow.python.ops import tensor_array_ops
from tensorflow.python.ops import variable_scope as vs
from tensorflow.python.ops.rnn_cell import *
from tensorflow.python.util import nest

_concat = rnn_cell_impl._concat
_like_rnncell = rnn_cell_impl._like_rnncell


class VecAttGRUCell(RNNCell):
    state_size = output_size = 3
    linear = None

    def __call__(self, inputs, state, att_score):
        self.linear = self.linear or _Linear([inputs, state], 3, True)
        return (att_score * math_ops.tanh(self.linear([inputs, state])),) * 2


def dynamic_rnn(cell, inputs, att_scores, sequence_length):
    if not _like_rnncell(cell):
        raise TypeError("cell must be an instance of RNNCell")
    assert nest.is_sequence((1, 2)) and not _like_rnncell(inputs)
    inputs = array_ops.transpose(ops.convert_to_tensor(inputs), [1, 0, 2])
    steps, batch = inputs.shape[0].value, inputs.shape[1].value
    with vs.variable_scope("rnn"):
        state = array_ops.zeros(array_ops.stack(_concat(batch, cell.state_size)), dtypes.float32)
        results = tensor_array_ops.TensorArray(dtypes.float32, steps)
        fits = math_ops.equal(array_ops.size(sequence_length), batch)

        def step(time, results, state, scores):
            output, new = cell(inputs[time], state, scores[:, time, :])
            keep = time < sequence_length
            new = control_flow_ops.cond(
                time < math_ops.reduce_min(sequence_length),
                lambda: new, lambda: array_ops.where(keep, new, state))
            output = array_ops.where(keep, output, array_ops.zeros_like(output))
            return (time + 1, results.write(time, output), new, scores)

        with ops.control_dependencies([control_flow_ops.Assert(fits, ["other lengths"])]):
            first = constant_op.constant(0)
        _, results, state, _ = control_flow_ops.while_loop(
            cond=lambda time, *_: time < steps,
            body=step, loop_vars=(first, results, state, att_scores))
    outputs = array_ops.transpose(results.stack(), [1, 0, 2])
    assert isinstance(outputs, ops.Tensor)
    return outputs, state
"""


def test_a_copy_of_an_rnn_trains() -> None:
    values = np.random.RandomState(0).rand(2, 4, 5).astype(np.float32)
    with graph_opt.install(contrib=True):
        copy: Dict[str, Any] = {"__name__": "rnn"}
        exec(COPY, copy)
        cell = copy["VecAttGRUCell"]()
        outputs, state = copy["dynamic_rnn"](cell, values, tf.ones([2, 4, 1]), tf.constant([4, 2]))
    kernel, bias = tf.trainable_variables()
    gradient = tf.gradients(tf.reduce_sum(outputs), kernel)[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got, last, weights, slope = session.run([outputs, state, kernel, gradient])
    expected = np.zeros([2, 4, 3])
    for row, length in ((0, 4), (1, 2)):
        before = np.zeros(3)
        for step in range(length):
            before = np.tanh(np.concatenate([values[row, step], before]) @ weights)
            expected[row, step] = before
        np.testing.assert_allclose(last[row], before, rtol=1e-5)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert bias.op.name == "rnn/bias" and slope.shape == (8, 3) and slope.any()


def test_what_is_in_its_place_stays_and_the_rest_goes() -> None:
    ops = importlib.import_module("tensorflow.python.framework.ops")
    normalization = importlib.import_module("tensorflow.python.layers.normalization")
    graph, named, layers = ops.Graph, set(vars(ops)), set(vars(normalization))
    with graph_opt.install():
        assert ops.Tensor is tf.Tensor and ops.IndexedSlices is tf.IndexedSlices
        assert ops.Graph is graph
        nn = importlib.import_module("tensorflow.python.ops.nn")
        assert nn.dynamic_rnn is importlib.import_module("tensorflow.python.ops.rnn").dynamic_rnn
        assert normalization.BatchNormalization is tf.layers.BatchNormalization
        for name in MOVED_MODULES:
            assert importlib.import_module(name)
        with pytest.raises(tf.errors.FailedPreconditionError):
            graph_opt.install(deeprec=False)
    assert set(vars(ops)) == named and set(vars(normalization)) == layers
    with graph_opt.install(deeprec=False):
        assert set(vars(ops)) == named
    for name in MOVED_MODULES:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def test_modules_of_the_api_are_those_that_have_the_names() -> None:
    nn = tf.nn
    with graph_opt.install():
        copy: Dict[str, Any] = {}
        exec("from tensorflow.compat.v1.nn import group_embedding_lookup_sparse as lookup", copy)
        assert copy["lookup"] is graph_opt.group_embedding_lookup_sparse
        assert tf.nn is nn is importlib.import_module("tensorflow.compat.v1.nn")
        assert importlib.import_module("tensorflow.distribute.experimental.rpc")
    assert "tensorflow.nn" in parts_of_version_1()
    assert "tensorflow.distribute" not in parts_of_version_1()
