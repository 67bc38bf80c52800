"""Several threads of one stage: batches leave in the order in which one would draw them."""

from __future__ import annotations

import itertools
from typing import Any, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.runtime import draws
from graph_opt.runtime.staged import staged
from graph_opt.runtime.stages import stages_of
from tests.quick_cases import one_of_each
from tests.runtime.sources import drain, failing_at, numbers, prefetching, runner_of

COUNT = 60


def uneven(number: Any) -> Any:
    """The number, after work that takes longer for some numbers than for others."""
    rounds = (number * 7919) % 97 * 3
    done = tf.while_loop(lambda i: i < rounds, lambda i: i + 1, [tf.zeros([], tf.int64)])
    with tf.control_dependencies([done]):
        return tf.identity(number)


def arrived(taken: Any) -> List[Any]:
    with tf.Session() as session, prefetching(session):
        return drain(session, taken)


def counting_py_func() -> Any:
    count = itertools.count()

    def batch() -> np.int64:
        number = next(count)
        if number >= COUNT:
            raise EOFError
        return np.int64(number)

    return tf.ensure_shape(tf.py_func(batch, [], tf.int64), [])


@pytest.mark.parametrize("num_threads", [1, 4])
def test_an_iterator(num_threads: int) -> None:
    taken = staged(uneven(numbers(COUNT)), num_threads=num_threads, capacity=3)
    assert arrived(taken) == list(range(COUNT))


def test_a_queue() -> None:
    queue = tf.FIFOQueue(COUNT, tf.int64, [])
    fill = queue.enqueue_many([tf.range(COUNT, dtype=tf.int64)])
    taken = staged(uneven(queue.dequeue()), num_threads=4, capacity=3)
    with tf.Session() as session:
        session.run(fill)
        session.run(queue.close())
        with prefetching(session):
            assert drain(session, taken) == list(range(COUNT))


def test_a_py_func_that_makes_batches() -> None:
    taken = staged(
        uneven(counting_py_func()), num_threads=4, capacity=3, closed_exception_types=EOFError
    )
    assert arrived(taken) == list(range(COUNT))


def test_a_py_func_that_parses_runs_in_several_threads() -> None:
    parsed = tf.py_func(lambda number: number, [numbers(COUNT)], tf.int64)
    assert [each.type for each in draws.sources_upstream([parsed])] == ["IteratorGetNext"]
    fed = tf.placeholder(tf.int64, [])
    parsed = tf.py_func(lambda number: number, [fed], tf.int64)
    assert draws.sources_upstream([parsed], fed=[fed.name]) == []


def test_map_fn_over_a_batch_runs_in_several_threads() -> None:
    batch = tf.reshape(numbers(COUNT), [1])
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.range(9), tf.range(9)), -1
    )
    mapped = tf.map_fn(lambda number: number + 1, batch) + tf.cast(
        table.lookup(tf.constant([1])), tf.int64
    )
    rows = tf.nn.embedding_lookup(tf.get_variable("rows", [9, 2]), mapped)
    assert [each.type for each in draws.sources_upstream([rows])] == ["IteratorGetNext"]


def test_two_iterators_and_a_stage_stay_together() -> None:
    first = staged(numbers(COUNT), capacity=2)
    taken = staged([uneven(first), numbers(COUNT) * 10, numbers()], num_threads=4, capacity=3)
    assert arrived(taken) == [[n, n * 10, n] for n in range(COUNT)]


def test_two_stages_stay_together() -> None:
    left, right = staged(numbers(COUNT)), staged(numbers(COUNT) * 10, num_threads=2)
    taken = staged([uneven(left), right], num_threads=4, capacity=3)
    assert arrived(taken) == [[n, n * 10] for n in range(COUNT)]


def test_seeded_random_numbers_are_the_same_as_with_one_thread() -> None:
    def drawn(num_threads: int) -> List[Any]:
        with tf.Graph().as_default():
            number = numbers(COUNT)
            noise = tf.random.uniform([], seed=3) + tf.random.normal(
                tf.shape(uneven(number)), seed=5
            )
            return arrived(staged([number, noise], num_threads=num_threads, capacity=3))

    assert drawn(4) == drawn(1)


def test_generators_and_callables_of_a_feed_dict() -> None:
    left, right = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [])
    third = tf.placeholder(tf.int64, [])
    count = itertools.count()
    feeds = {left: iter(range(COUNT)), right: lambda: next(count) * 10, third: numbers(COUNT) + 1}
    features = [uneven(left), right, third, numbers(COUNT)]
    taken = staged(features, feed_dict=feeds, num_threads=4, capacity=3)
    assert arrived(taken) == [[n, n * 10, n + 1, n] for n in range(COUNT)]


def test_a_source_inside_a_function() -> None:
    iterator = tf.data.make_one_shot_iterator(tf.data.Dataset.range(COUNT))

    @tf.function(autograph=False)
    def draw() -> Any:
        return iterator.get_next() + 0

    @tf.function(autograph=False)
    def parse(number: Any) -> Any:
        return number + 0

    number = parse(draw())
    assert len(draws.sources_upstream([number])) == 1
    taken = staged(uneven(tf.ensure_shape(number, [])), num_threads=4, capacity=3)
    assert arrived(taken) == list(range(COUNT))


def test_a_source_inside_a_cond_leaves_one_thread_and_a_warning(
    warnings_logged: List[str],
) -> None:
    number = tf.cond(tf.constant(True), lambda: numbers(COUNT), lambda: numbers() + 1000)
    taken = staged(number, num_threads=4, capacity=3, name="input")
    (stage,) = stages_of(tf.get_default_graph())
    assert [put.threads_num for put in stage.puts] == [1]
    assert len(warnings_logged) == 1 and "stage 'input' has one thread" in warnings_logged[0]
    assert arrived(taken) == list(range(COUNT))


@pytest.mark.parametrize("options", [{"num_threads": 1}, {"num_threads": 4, "unordered": True}])
def test_without_turns_nothing_is_added(options: Any) -> None:
    staged(numbers(COUNT), **options)
    staged(tf.constant(1), num_threads=4)
    types = {operation.type for operation in tf.get_default_graph().get_operations()}
    assert not types & {"TensorBufferTurn", "TensorBufferTurnEnd"}
    assert not any(put.ordered for s in stages_of(tf.get_default_graph()) for put in s.puts)


def test_unordered_loses_nothing() -> None:
    taken = staged(uneven(numbers(COUNT)), num_threads=4, capacity=3, unordered=True)
    assert sorted(arrived(taken)) == list(range(COUNT))


@pytest.mark.parametrize(
    "bad, ignored", one_of_each([0, 13, COUNT - 1], [(), tf.errors.InvalidArgumentError])
)
def test_a_failed_step_does_not_block_others(bad: int, ignored: Any) -> None:
    number = failing_at(COUNT, bad)
    taken = staged(uneven(number), num_threads=4, capacity=3, ignored_exception_types=ignored)
    values: List[Any] = []
    with tf.Session() as session, prefetching(session) as hook:
        while len(values) < COUNT + 1:
            try:
                values.append(int(session.run(taken)))
            except tf.errors.InvalidArgumentError:
                values.append("torn")
            except tf.errors.OutOfRangeError:
                values.append("end")
                break
        metrics = runner_of(hook).metrics()["staged"]
    expected: List[Any] = [n if n != bad else "torn" for n in range(COUNT)] + ["end"]
    if ignored:
        expected.remove("torn")
    assert values == expected
    assert (metrics["ignored"], metrics["errors"]) == ((1, 0) if ignored else (0, 1))


def test_the_source_may_fail_in_its_turn() -> None:
    lines = tf.data.Dataset.from_tensor_slices(["0", "torn", "2", "torn", "4"])
    parsed = lines.map(lambda line: tf.string_to_number(line, tf.int64))
    taken = staged(tf.data.make_one_shot_iterator(parsed).get_next(), num_threads=4, capacity=2)
    values: List[Any] = []
    with tf.Session() as session, prefetching(session):
        for _ in range(6):
            try:
                values.append(int(session.run(taken)))
            except tf.errors.OpError as error:
                values.append(type(error))
    torn, end = tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError
    assert values == [0, torn, 2, torn, 4, end]


def test_a_source_read_by_main_waits_for_no_turn() -> None:
    number = numbers()
    staged(number + 1, num_threads=4)
    with tf.Session() as session:
        assert [session.run(number) for _ in range(3)] == [0, 1, 2]
