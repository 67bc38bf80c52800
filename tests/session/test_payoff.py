"""A session whose lookups are too small to benefit from prefetching says so once."""

from __future__ import annotations

import time
from typing import Any

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.reporting.warnings_given import forget_warnings, warnings_about, warnings_given
from graph_opt.runtime.aside import Aside
from graph_opt.runtime.payoff import MeasuredStep, Payoff

STEPS = 700


def tiny_model() -> Any:
    """Two ids, a table of 400 numbers and one layer: a step takes a third of a millisecond."""
    ids = tf.data.Dataset.from_tensors(tf.constant([1, 2], tf.int64)).repeat()
    rows = tf.nn.embedding_lookup(
        tf.get_variable("table", [100, 4]), tf.data.make_one_shot_iterator(ids).get_next()
    )
    loss = tf.reduce_mean(tf.layers.dense(rows, 1))
    return tf.train.GradientDescentOptimizer(0.01).minimize(loss)


def config() -> Any:
    extended = graph_opt.ConfigProto()
    options = extended.graph_options.optimizer_options
    options.do_async_embedding = True
    options.async_embedding_options.threads_num = 1
    options.async_embedding_options.capacity = 2
    options.async_embedding_options.infer_io_stage = True
    return extended


@pytest.mark.slow
@pytest.mark.alone
def test_a_tiny_step_is_reported_not_to_benefit_from_running_ahead() -> None:
    forget_warnings()
    train = tiny_model()
    for _ in range(2):
        with graph_opt.Session(config=config()) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(STEPS):
                session.run(train)
    (told,) = [line for line in warnings_given() if "does not pay" in line]
    assert "a step takes" in told and "do_async_embedding" in told
    report = graph_opt.report(tf.get_default_graph())
    assert report is not None
    assert [line for line in report.warnings if "does not pay" in line] == [told]


def test_lookups_that_take_longer_than_running_them_ahead_costs_are_worth_it() -> None:
    def busy() -> None:
        start = time.thread_time()
        while time.thread_time() - start < 0.001:
            pass

    graph = tf.get_default_graph()
    one, empty = lambda: 1, lambda: lambda: None
    aside = Aside("graph_opt/test/aside")
    step = MeasuredStep(
        busy, workers=one, stages=2, compile_empty=empty, graph=graph, begin_aside=aside.begin
    )
    for _ in range(STEPS):
        step()
    for measuring in aside.threads:
        measuring.join()
    assert warnings_about(graph) == ()


def test_what_costs_little_compared_with_the_step_is_not_reported() -> None:
    assert not Payoff(step=0.004, lookups=0.00001, cost=0.0002).is_loss
    assert Payoff(step=0.0004, lookups=0.00001, cost=0.0002).is_loss
    assert not Payoff(step=0.0004, lookups=0.0003, cost=0.0002).is_loss
