"""`keep_weights` of variable scopes."""

from __future__ import annotations

import graph_opt
from graph_opt.compat import tf


def test_layers_compute_in_bfloat16_over_float32_variables() -> None:
    inputs = tf.random.normal([4, 8], seed=1)
    with graph_opt.install():
        for _ in range(2):
            scope = tf.variable_scope("dnn", reuse=tf.AUTO_REUSE)
            with scope.keep_weights(dtype=tf.float32):
                output = tf.layers.dense(tf.cast(inputs, tf.bfloat16), 3, name="layer")
                tf.get_variable("whole", [2], tf.int32, initializer=tf.zeros_initializer())
    assert not hasattr(tf.variable_scope, "keep_weights")
    assert output.dtype == tf.bfloat16
    kernel, bias = tf.trainable_variables()[:2]
    assert {kernel.dtype.base_dtype, bias.dtype.base_dtype} == {tf.float32}
    assert tf.get_default_graph().get_operation_by_name("dnn/layer/kernel/cast")
    loss = tf.reduce_sum(tf.cast(output, tf.float32) ** 2)
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(kernel)
        session.run(train)
        assert (session.run(kernel) != before).any()
