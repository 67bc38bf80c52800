"""Names where TensorFlow 1.15 has them."""

from __future__ import annotations

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.moved_names import moved_names


def test_copies_of_the_sources_of_tensorflow_1_find_its_names() -> None:
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops, control_flow_ops, variables
    from tensorflow.python.util import nest

    moved = moved_names()
    assert len(moved) == 19
    with graph_opt.install(contrib=True):
        assert moved_names() == []
        numbers = array_ops.stack([1, 2])
        assert isinstance(numbers, ops.Tensor) and nest.is_sequence([numbers])
        last, _ = control_flow_ops.while_loop(
            lambda i, total: i < 4, lambda i, total: (i + 1, total + i), [0, numbers]
        )
        chosen = control_flow_ops.cond(last > 3, lambda: last, lambda: -last)
        control_flow_ops.Assert(last > 3, [last])
        assert issubclass(variables.RefVariable, variables.VariableV1)
        with tf.Session() as session:
            assert session.run(chosen) == 4
    assert moved_names() == moved
