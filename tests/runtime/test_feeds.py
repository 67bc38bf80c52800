"""`feed_dict` of a stage: tensors, constants, callables and iterators, for every kind of key."""

from __future__ import annotations

import itertools
from typing import Any, Iterator, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.runtime.feeds import plan_feeds
from graph_opt.runtime.staged import staged
from tests.runtime.sources import drain, numbers, prefetching


def values_of(taken: Any) -> List[Any]:
    """All values that main takes until the end of input."""
    with tf.Session() as session, prefetching(session):
        return drain(session, taken)


def first_values(taken: Any, count: int) -> List[Any]:
    """The first values that main takes from an endless input."""
    with tf.Session() as session, prefetching(session):
        return [session.run(taken) for _ in range(count)]


def test_a_tensor_is_evaluated_before_each_step() -> None:
    fed = tf.placeholder(tf.int64, [])
    assert values_of(staged(fed * 2, {fed: numbers(5)})) == [0, 2, 4, 6, 8]


def test_a_constant_is_fed_at_each_step_in_the_placeholders_dtype() -> None:
    fed = tf.placeholder(tf.float32, [2])
    taken = staged([fed, numbers(2)], {fed: [1, 2]})
    for value, _ in values_of(taken):
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, [1.0, 2.0])


def test_a_callable_is_called_at_each_step() -> None:
    fed = tf.placeholder(tf.string, [None])
    count = itertools.count()
    taken = staged(fed, {fed: lambda: ["step", str(next(count))]})
    assert [list(value) for value in first_values(taken, 3)] == [
        [b"step", b"0"],
        [b"step", b"1"],
        [b"step", b"2"],
    ]


def test_the_end_of_an_iterator_is_the_end_of_input() -> None:
    fed = tf.placeholder(tf.int32, [])
    assert values_of(staged(fed, {fed: iter([3, 1, 2])})) == [3, 1, 2]


def test_a_name_is_a_key_too() -> None:
    tf.placeholder(tf.int32, [], name="fed")
    by_name = tf.get_default_graph().get_tensor_by_name("fed:0")
    assert values_of(staged(by_name, {"fed": iter([1])})) == [1]


def test_one_generator_feeds_several_placeholders_with_four_threads() -> None:
    image, label = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])

    def pairs() -> Iterator[Tuple[List[float], int]]:
        for number in range(200):
            yield [float(number)] * 3, number

    values = values_of(staged([image, label], {(image, label): pairs()}, num_threads=4))
    assert sorted(label for _, label in values) == list(range(200))
    assert all((image == float(label)).all() for image, label in values)


def test_two_generators_stay_together_with_four_threads() -> None:
    first, second = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [])
    feeds = {(first, second): (iter(range(200)), iter(range(200)))}
    values = values_of(staged([first, second], feeds, num_threads=4))
    assert sorted(a for a, _ in values) == list(range(200))
    assert all(a == b for a, b in values)


def test_sparse_and_ragged_placeholders_take_values_and_tensors() -> None:
    sparse = tf.sparse_placeholder(tf.float32, [None, 4])
    ragged = tf.ragged.placeholder(tf.int32, 1)
    other = tf.sparse_placeholder(tf.float32, [None, 4])
    value = tf.SparseTensorValue(np.array([[1, 2]]), np.array([5.0]), np.array([2, 4]))
    feeds = {
        sparse: lambda: value,
        ragged: iter([tf.ragged.constant_value([[1], [2, 3]], dtype=np.int32)]),
        other: tf.sparse.from_dense(tf.eye(4)),
    }
    dense = [tf.sparse.to_dense(sparse), ragged.to_tensor(), tf.sparse.to_dense(other)]
    ((first, second, third),) = values_of(staged(dense, feeds))
    np.testing.assert_array_equal(first, [[0, 0, 0, 0], [0, 0, 5, 0]])
    np.testing.assert_array_equal(second, [[1, 0], [2, 3]])
    np.testing.assert_array_equal(third, np.eye(4))


def test_a_fed_tensor_of_another_stage_makes_that_stage_upstream() -> None:
    fed = tf.placeholder(tf.int64, [])
    first = staged(numbers(4), name="first")
    assert values_of(staged(fed, {fed: first}, name="second")) == [0, 1, 2, 3]


def test_what_a_callable_raises_reaches_main_with_its_type_and_message() -> None:
    fed = tf.placeholder(tf.int64, [])

    def broken() -> int:
        raise KeyError("no such file")

    taken = staged(fed, {fed: broken})
    with tf.Session() as session, prefetching(session):
        with pytest.raises(tf.errors.UnknownError, match="KeyError: 'no such file'"):
            session.run(taken)


@pytest.mark.parametrize(
    "source, message",
    [
        (lambda: "text", "Placeholder:0' cannot be fed a str"),
        (lambda: [1, 2, 3], r"Placeholder:0' has shape \(2,\), was fed \(3,\)"),
    ],
)
def test_a_value_that_does_not_fit_reaches_main(source: Any, message: str) -> None:
    fed = tf.placeholder(tf.int64, [2])
    taken = staged(fed, {fed: source})
    with tf.Session() as session, prefetching(session):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(taken)


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("x", [1, 2, 3], "has shape"),
        ("x", "text", "cannot be fed a str"),
        ("nowhere", 1, "is not in the default graph"),
        (7, 1, "need a placeholder"),
        (("x", "y"), (1,), "has 2 parts, was given 1"),
        (("x", "y"), 5, "needs 2 values"),
    ],
)
def test_feeds_that_cannot_be_are_refused_at_once(key: Any, value: Any, message: str) -> None:
    tf.placeholder(tf.int64, [2], name="x")
    tf.placeholder(tf.int64, [2], name="y")
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        plan_feeds(tf.get_default_graph(), {key: value})


def test_tensors_that_do_not_fit_are_refused_at_once() -> None:
    fed = tf.placeholder(tf.int64, [2])
    graph = tf.get_default_graph()
    with pytest.raises(tf.errors.InvalidArgumentError, match="is int64, was given float32"):
        plan_feeds(graph, {fed: tf.zeros([2])})
    with pytest.raises(tf.errors.InvalidArgumentError, match="has shape"):
        plan_feeds(graph, {fed: tf.zeros([3], tf.int64)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="is fed twice"):
        plan_feeds(graph, {fed: [1, 2], fed.name: [1, 2]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs a SparseTensorValue"):
        plan_feeds(graph, {tf.sparse_placeholder(tf.int64): 3})
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs a RaggedTensorValue"):
        plan_feeds(graph, {tf.ragged.placeholder(tf.int64, 1): 3})
