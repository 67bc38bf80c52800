"""What a step of a script does, as far as its operations tell."""

from __future__ import annotations

from graph_opt.checking.step_kinds import kind_of
from graph_opt.compat import tf


def test_what_reads_only_the_count_of_steps_has_no_order_in_a_step_that_counts() -> None:
    with tf.Graph().as_default():
        count = tf.train.get_or_create_global_step()
        weight = tf.get_variable("weight", [])
        scale = tf.placeholder(tf.float32, [], "scale")
        loss = tf.square(weight * scale * tf.cast(count, tf.float32) - 1.0)
        rate = tf.train.exponential_decay(0.1, count, 10, 0.5)
        summary = tf.summary.merge([tf.summary.scalar("rate", rate), tf.summary.scalar("l", loss)])
        train = tf.train.GradientDescentOptimizer(rate).minimize(loss, count)
        with tf.control_dependencies([train]):
            after = tf.identity(count)
        step = kind_of([count, loss, rate, summary, after, scale], [train], [scale])
        assert step.trains
        assert step.unordered == {count.name, rate.name, "summary rate"}
        assert kind_of([count], [], []).unordered == set()
