"""What is named as making runs of a script differ."""

from __future__ import annotations

import inspect
from typing import Any, List

import numpy as np
import pytest

from graph_opt.checking.unrepeatable import unrepeatable_parts
from graph_opt.compat import tf


@pytest.fixture(autouse=True)
def unseeded(fresh_graph: Any) -> None:
    tf.set_random_seed(None)


def reasons(graph: Any, *steps: Any) -> List[str]:
    return [line.partition(":")[0] for line in unrepeatable_parts(graph, steps)]


def test_initializers_do_not_count(fresh_graph: Any) -> None:
    table = tf.get_variable("table", [3, 2])
    step = tf.reduce_sum(table.read_value())
    dropped = tf.nn.dropout(table, rate=0.5)
    assert reasons(fresh_graph, step.op) == []
    assert reasons(fresh_graph, dropped.op) == ["random numbers without a seed"]
    seeded = tf.random_uniform([], seed=3)
    assert reasons(fresh_graph, seeded.op) == []


def test_datasets_are_examined_with_their_functions(fresh_graph: Any) -> None:
    data = tf.data.Dataset.range(9)
    tf.data.make_one_shot_iterator(data.shuffle(3, seed=1)).get_next()
    assert reasons(fresh_graph) == []
    tf.data.make_one_shot_iterator(data.shuffle(3)).get_next()
    (line,) = unrepeatable_parts(fresh_graph)  # with the dataset once, not its copy in a function
    assert line.startswith("shuffle without a seed: ") and "," not in line
    tf.data.make_one_shot_iterator(data.map(lambda i: tf.random_uniform([]))).get_next()
    assert reasons(fresh_graph)[1:] == ["random numbers without a seed"]


@pytest.mark.skipif(
    "deterministic" not in inspect.signature(tf.data.Dataset.map).parameters,
    reason="datasets of this TensorFlow are in order",
)
def test_parallel_input_in_no_certain_order_is_named(fresh_graph: Any) -> None:
    data = tf.data.Dataset.range(9)
    data = data.map(lambda i: i + 1, num_parallel_calls=2, deterministic=False)
    tf.data.make_initializable_iterator(data)
    assert reasons(fresh_graph) == ["parallel input with deterministic=False"]


def test_queues_and_python_functions_are_named(fresh_graph: Any) -> None:
    batch = tf.train.shuffle_batch([tf.constant(1)], 2, 9, 1, num_threads=3)
    call = tf.py_func(lambda: np.float32(1.0), [], tf.float32)
    assert reasons(fresh_graph, batch.op, call.op) == [
        "a queue that shuffles without a seed",
        "a Python function, which may draw on anything",
        "a queue that 3 threads fill",
    ]
