"""The example in the package's docstring trains a model whose script knows nothing of graph_opt."""

from __future__ import annotations

import doctest

import graph_opt
from graph_opt.compat import tf


def test_the_packages_example_runs_ahead() -> None:
    ids = tf.data.make_one_shot_iterator(tf.data.Dataset.range(64).batch(8)).get_next()
    loss = tf.reduce_sum(tf.nn.embedding_lookup(tf.get_variable("table", [64, 4]), ids))
    step = tf.train.get_or_create_global_step()
    names = {"train_op": tf.train.AdagradOptimizer(0.1).minimize(loss, step)}
    example = doctest.DocTestParser().get_doctest(
        graph_opt.__doc__ or "", names, "graph_opt", "", 0
    )
    assert len(example.examples) > 5
    exec(compile("".join(one.source for one in example.examples), "docstring", "exec"), names)
    (lookup,) = names["graph_opt"].report().lookups
    assert lookup.outcome == "moved"
