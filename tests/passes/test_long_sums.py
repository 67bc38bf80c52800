"""Sums of three terms, which TensorFlow orders by names, are equal within rounding."""

from __future__ import annotations

from typing import Any, List

import numpy as np

import graph_opt
from graph_opt.checking.comparison import ULPS_PER_UPDATE
from graph_opt.compat import tf
from tests.passes import models


def losses(options: Any, orders_sums: bool) -> List[float]:
    options.graph_options.rewrite_options.disable_meta_optimizer = not orders_sums
    found = []
    with tf.Graph().as_default():
        tf.set_random_seed(11)
        inputs = models.features()
        rows = tf.nn.embedding_lookup(models.table(), inputs["other"])
        for name in ("draw", "draw_again"):
            with tf.name_scope(name):
                drawn = tf.random_uniform(tf.shape(inputs["dense"]), seed=3)
                inputs["dense"] = inputs["dense"] + drawn
        loss, step = models.train([rows], inputs, learning_rate=0.0)
        with graph_opt.Session(config=options) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(models.ROWS // models.BATCH):
                found.append(session.run([loss, step])[0])
    return found


def smart() -> Any:
    made = models.config()
    made.graph_options.optimizer_options.do_smart_stage = True
    return made


def test_they_are_equal_within_rounding() -> None:
    ours, stock = losses(smart(), True), losses(tf.ConfigProto(), True)
    # What `graph-opt check` calls rounding; a logit is four such sums, times weights of up to 1.
    np.testing.assert_array_max_ulp(np.array(ours), np.array(stock), maxulp=ULPS_PER_UPDATE)


def test_they_are_equal_to_the_bit_in_the_order_of_the_script() -> None:
    assert losses(smart(), False) == losses(tf.ConfigProto(), False)
