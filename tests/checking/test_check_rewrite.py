"""The check inside a program, on real graphs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.passes import models
from tests.session.small_model import async_config, small_model


def fused_and_ahead(threads: int = 3, capacity: int = 4) -> Any:
    config = async_config(threads, capacity)
    config.graph_options.optimizer_options.do_group_embedding = True
    return config


@pytest.mark.slow
def test_a_prefetched_graph_is_compared_without_staleness(fresh_graph: Any) -> None:
    model = small_model(learning_rate=0.5, epochs=3)
    result = graph_opt.check_rewrite(
        fresh_graph, fused_and_ahead(), 30, [model.train_op, model.loss]
    )
    assert result.verdict in ("equal", "rounding"), result
    assert result.steps == 28  # three epochs of nine batches, and the end of the input
    assert result.staleness is not None and result.staleness.bits_differ
    assert result.sessions and "run ahead" in result.sessions[0]
    assert not any(op.type.startswith("TensorBuffer") for op in fresh_graph.get_operations())


@pytest.mark.grappler
def test_another_order_of_a_sum_is_rounding(fresh_graph: Any) -> None:
    inputs = models.features()
    items, users = (
        tf.nn.embedding_lookup(models.table(name), inputs["other"], name=name)
        for name in ("items", "users")
    )
    # TensorFlow's own graph optimizer orders terms by the names of nodes: this one is before the
    # lookups, and behind what takes their rows from `async_embedding`. It leaves what is fetched.
    long_sum = tf.identity(items + users + tf.tanh(items, name="further"))
    loss, train_op = models.train([long_sum], inputs)
    config, fetches = models.config(), [train_op, loss, long_sum]
    result = graph_opt.check_rewrite(fresh_graph, config, 6, fetches)
    assert result.verdict == "rounding", result
    assert result.sessions[0].startswith("2 of 2 lookups run ahead")
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    result = graph_opt.check_rewrite(fresh_graph, config, 6, fetches)
    assert result.verdict == "equal", result


@pytest.mark.slow
def test_the_documented_example_runs(fresh_graph: Any) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "command-check.md"
    found = re.search(r"```python\n(.*?check_rewrite.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert found is not None
    model = small_model(learning_rate=0.5, epochs=3)
    names = {"graph": fresh_graph, "config": async_config(), "graph_opt": graph_opt}
    exec(found.group(1), dict(names, train_op=model.train_op, loss=model.loss))


@pytest.mark.slow
def test_an_update_with_other_numbers_is_found_with_its_pass(fresh_graph: Any) -> None:
    ids = tf.placeholder(tf.int64, [None], "ids")
    table = tf.get_variable("table", [50, 4])
    loss = tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, ids) - 1.0), name="loss")
    tf.train.AdamOptimizer(0.1).minimize(loss, name="train")
    config = async_config()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    options.group_embedding_options.adam = "lazy"
    batches = [{"ids:0": np.arange(step, step + 5) % 12} for step in range(0, 40, 3)]
    result = graph_opt.check_rewrite(fresh_graph, config, batches, ["train", "loss:0"])
    assert result.verdict == "different" and result.exit_code == 1
    assert result.culprit == "fuse_group_embedding, its updates of tables"
    assert result.first is not None and result.first.what == "loss:0"
    assert "table" in result.before
    options.group_embedding_options.adam = "deferred"
    result = graph_opt.check_rewrite(fresh_graph, config, batches, ["train", "loss:0"])
    assert result.exit_code == 0, result


@pytest.mark.slow
def test_unseeded_random_numbers_are_named(fresh_graph: Any) -> None:
    model = small_model(learning_rate=0.5, epochs=3)
    tf.set_random_seed(None)
    noise = tf.random_uniform([], name="noise")
    result = graph_opt.check_rewrite(
        fresh_graph, async_config(), 8, [model.train_op, model.loss * noise]
    )
    assert result.verdict == "unchecked" and result.exit_code == 2
    assert "two stock runs differ" in result.reason
    assert result.unrepeatable == ("random numbers without a seed: noise/RandomUniform",)
    assert "unrepeatable: random numbers without a seed" in str(result)


def test_a_config_that_is_refused_is_no_difference(fresh_graph: Any) -> None:
    model = small_model(learning_rate=0.5, epochs=3)
    config = fused_and_ahead()
    config.graph_options.optimizer_options.async_embedding_options.infer_io_stage = False
    result = graph_opt.check_rewrite(fresh_graph, config, 3, [model.train_op, model.loss])
    assert result.verdict == "unchecked", result
    assert "rewritten, no step was run: it failed: do_async_embedding needs an IO" in result.reason


@pytest.mark.slow
def test_sparse_feeds_queues_text_and_structures_of_fetches(fresh_graph: Any) -> None:
    sparse = tf.sparse_placeholder(tf.int64, [None, 9])
    table = tf.get_variable("table", [50, 4], use_resource=True)
    weight = tf.train.batch([tf.constant(1.5)], 2)
    rows = tf.nn.embedding_lookup_sparse(table, sparse, None, combiner="sum")
    loss = tf.reduce_sum(tf.square(rows - 1.0) * weight[:, None])
    fetches: Dict[str, Any] = {}
    fetches["train"] = tf.train.AdagradOptimizer(0.1).minimize(loss)
    fetches.update(loss=(loss, sparse), text=tf.as_string(loss > 0.0))
    batch = {sparse: tf.SparseTensorValue([[0, 0], [1, 3]], [7, 8], [2, 9])}
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = True
    result = graph_opt.check_rewrite(fresh_graph, config, [batch] * 4, fetches)
    assert result.exit_code == 0 and result.updates == 4, result
    assert "1 of 1 lookup in an op of its own" in result.sessions[0]
    assert graph_opt.check_rewrite(fresh_graph, config, [batch], fetches["train"]).exit_code == 0


def test_without_fetches_the_collections_say_what_a_step_runs(fresh_graph: Any) -> None:
    value = tf.get_variable("value", [3])
    with pytest.raises(ValueError, match="give fetches"):
        graph_opt.check_rewrite(fresh_graph, async_config(), 1)
    loss = tf.losses.mean_squared_error([1.0, 2.0, 3.0], value)
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    result = graph_opt.check_rewrite(fresh_graph, async_config(), 2)
    assert result.verdict == "equal" and result.updates == 2
