"""Nodes that take batches from one iterator or queue get TensorFlow's batches."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.passes import models
from tests.passes.refused_models import looked_up
from tests.plain_sessions import plain_session
from tests.session.small_model import async_config

STEPS, ROWS = 6, 20


def _ids() -> Any:
    return tf.data.Dataset.range(2 * STEPS + 2)


def _from_iterator() -> Tuple[Any, Any]:
    iterator = tf.data.make_one_shot_iterator(_ids())
    first = iterator.get_next()
    with tf.control_dependencies([first]):
        return first, iterator.get_next()


def _from_fed_iterator() -> Tuple[Any, Any]:
    one = tf.data.make_one_shot_iterator(_ids())
    handle = tf.placeholder_with_default(one.string_handle(), [])
    fed = tf.data.Iterator.from_string_handle(handle, tf.int64, [])
    first = fed.get_next()
    with tf.control_dependencies([first]):
        return first, one.get_next()


def _from_queue() -> Tuple[Any, Any]:
    queue = tf.FIFOQueue(-1, [tf.int64], [[]])
    values = np.arange(2 * STEPS + 2)
    filled = queue.enqueue_many(tf.constant(values, tf.int64))
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, filled)
    first = queue.dequeue()
    with tf.control_dependencies([first]):
        return first, queue.dequeue()


_INPUTS = pytest.mark.parametrize("inputs", [_from_iterator, _from_fed_iterator, _from_queue])


def _steps(inputs: Any, config: Any) -> List[Any]:
    """What steps read, of which each third reads from the second node alone."""
    with tf.Graph().as_default():
        first, second = inputs()
        table = tf.get_variable("table", [ROWS, 2], initializer=tf.ones_initializer())
        rows = tf.nn.embedding_lookup(table, first)
        step = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows)))
        opened = plain_session() if config is None else graph_opt.Session(config=config)
        with opened as session:
            session.run([tf.global_variables_initializer(), tf.tables_initializer()])
            return [session.run([first, second, step])[:2] for _ in range(STEPS)]


@_INPUTS
def test_batches_are_those_of_tensorflow(inputs: Any) -> None:
    assert _steps(inputs, async_config()) == _steps(inputs, None)


@_INPUTS
def test_the_lookup_stays_and_the_other_node_is_named(inputs: Any) -> None:
    first, second = inputs()
    looked_up(first)
    assert models.codes(models.optimized()) == ["batch_source_shared"]
    assert second.op.name in str(models.optimized().report.lookups[0].refusal)


def test_an_iterator_for_each_may_be_read_ahead() -> None:
    first, second = (tf.data.make_one_shot_iterator(_ids()).get_next() for _ in range(2))
    looked_up(first)
    tf.identity(second)
    assert models.codes(models.optimized()) == [None]
