"""Sessions that are open at once on one server: each has buffers of its own."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.session.shadowed_training import config

BATCHES = 12


@pytest.fixture(scope="module")
def target() -> str:
    """A server's."""
    return str(tf.train.Server.create_local_server().target)


def model(first: int) -> List[Any]:
    """An initializer, and a training step that returns its batch's number."""
    numbers = np.arange(first, first + BATCHES, dtype=np.int64)
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices(numbers))
    number = iterator.get_next()
    table = tf.get_variable("table", [2000, 4])
    rows = tf.nn.embedding_lookup(table, tf.reshape(number, [1]))
    loss = tf.reduce_sum(rows * rows)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return [[tf.global_variables_initializer(), iterator.initializer], [number, train]]


def graph_with(first: int) -> Any:
    """A graph with such a model, whose nodes are called the same whatever the batches are."""
    graph = tf.Graph()
    with graph.as_default(), tf.container("from.{}".format(first)):
        return graph, model(first)


def numbers_of(session: Any, step: List[Any], count: int) -> List[int]:
    """The batches of so many steps."""
    return [int(session.run(step)[0]) for _ in range(count)]


@pytest.mark.parametrize("graphs", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_each_takes_its_own_batches(target: str, graphs: int) -> None:
    built = [graph_with(1000 * number) for number in range(graphs)]
    models = [built[0], built[-1]]
    options = config(threads=1)
    with graph_opt.Session(target, models[0][0], options) as one:
        with graph_opt.Session(target, models[1][0], options) as two:
            for session, (_, (initialize, _)) in zip((one, two), models):
                session.run(initialize)
            found: List[List[int]] = [[], []]
            for _ in range(3):
                for session, (_, (_, step)), taken in zip((one, two), models, found):
                    taken += numbers_of(session, step, 2)
        found[0] += numbers_of(one, models[0][1][1], BATCHES - 6)
        with pytest.raises(tf.errors.OutOfRangeError):
            one.run(models[0][1][1])
    first = 1000 * (graphs - 1)
    assert found == [list(range(BATCHES)), list(range(first, first + 6))]


@pytest.mark.slow
def test_a_later_session_has_nothing_of_one_that_was_left(target: str) -> None:
    """A client that is lost leaves its batches on the server."""
    graph, (initialize, step) = graph_with(500)
    options = config(threads=1)
    left = graph_opt.Session(target, graph, options)
    left.run(initialize)
    assert numbers_of(left, step, 2) == [500, 501]
    with graph_opt.Session(target, graph, options) as session:
        session.run(initialize)
        assert numbers_of(session, step, 3) == [500, 501, 502]
    assert numbers_of(left, step, 2) == [502, 503]
    left.close()
