"""A session's input: ended, reinitialized, slow, broken."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import slow_but
from tests.session.small_model import (
    async_config,
    dataset,
    initialize,
    model_on,
    row_batches,
    run_to_end,
    small_model,
)


@pytest.fixture(autouse=True)
def no_threads_left(threads_left_behind: Callable[[], List[str]]) -> Callable[[], List[str]]:
    return threads_left_behind


@pytest.mark.parametrize("steps", slow_but([0, 1, 4, len(row_batches())], 1, len(row_batches())))
def test_the_initializer_starts_over_at_any_point_of_an_epoch(steps: int) -> None:
    model = small_model()
    with graph_opt.Session(config=async_config(threads=2, capacity=3)) as session:
        initialize(session, model)
        for _ in range(steps):
            session.run(model.features["row"])
        for _ in range(2):
            session.run(model.iterator.initializer)
            rows = run_to_end(session, model.features["row"])
            assert [list(row) for row in rows] == row_batches()


def test_the_end_of_input_is_repeated_until_the_initializer_runs() -> None:
    model = small_model()
    with graph_opt.Session(config=async_config()) as session:
        initialize(session, model)
        run_to_end(session, model.loss)
        for _ in range(3):
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(model.loss)


def test_no_batch_of_the_old_epoch_comes_after_the_initializer() -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def slow_at_40(row: np.int64) -> np.int64:
        if row == 40 and not go_on.is_set():
            waiting.set()
            go_on.wait()
        return row

    rows = tf.data.Dataset.range(64).map(lambda row: tf.py_func(slow_at_40, [row], tf.int64))
    batches = rows.map(lambda row: tf.ensure_shape(row, [])).batch(8)
    iterator = tf.data.make_initializable_iterator(batches)
    row = iterator.get_next()
    features = {"row": row, "user": row % 11, "item": row % 23, "label": tf.cast(row, tf.float32)}
    model = model_on(features, 0.0, iterator)
    with graph_opt.Session(config=async_config(capacity=3)) as session:
        initialize(session, model)
        session.run(model.features["row"])
        assert waiting.wait(10)
        timer = threading.Timer(1.5, go_on.set)  # longer than a runner waits for its threads
        timer.start()
        session.run(model.iterator.initializer)
        fetched = run_to_end(session, model.features["row"])
        timer.join()
    assert [rows[0] for rows in fetched] == list(range(0, 64, 8))


def test_stages_start_independently_so_one_input_may_wait_for_its_initializer() -> None:
    train = small_model(capacity=2)
    with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
        evaluation = small_model(capacity=2)
    with graph_opt.Session(config=async_config()) as session:
        initialize(session, train)
        rows = [list(session.run(train.features["row"])) for _ in range(3)]
        session.run(evaluation.iterator.initializer)
        assert len(run_to_end(session, evaluation.loss)) == len(row_batches())
        rows += [list(row) for row in run_to_end(session, train.features["row"])]
    assert rows == row_batches()


def test_an_initializer_of_another_input_does_not_affect_the_batches() -> None:
    model = small_model()
    other = tf.data.make_initializable_iterator(tf.data.Dataset.range(3))
    other_next = other.get_next()
    with graph_opt.Session(config=async_config()) as session:
        initialize(session, model)
        rows = []
        for _ in row_batches():
            session.run(other.initializer)
            rows.append(session.run([model.features["row"], other_next])[0])
    assert [list(row) for row in rows] == row_batches()


@pytest.mark.parametrize("has_table", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_step_before_the_initializers_fails_and_the_next_one_after_them_does_not(
    threads: int, has_table: bool
) -> None:
    iterator = tf.data.make_one_shot_iterator(dataset())
    features = iterator.get_next()
    if has_table:
        keys = tf.range(11, dtype=tf.int64)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys), 0)
        features = dict(features, user=table.lookup(features["user"]))
    model = model_on(features, 0.1, iterator)
    with graph_opt.Session(config=async_config(threads, capacity=3)) as session:
        if has_table:
            session.run(tf.global_variables_initializer())
        for _ in range(2):
            with pytest.raises(tf.errors.FailedPreconditionError):
                session.run(model.train_op)
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        rows = run_to_end(session, model.features["row"])
    last = row_batches()[-len(rows) :]
    assert [list(row) for row in rows] == last
    if threads == 1:
        assert len(last) >= len(row_batches()) - 2


def test_an_error_that_waits_for_an_earlier_batch_is_the_only_one() -> None:
    fourth_began, first_may_fail = threading.Event(), threading.Event()
    began = itertools.count(1)

    def user_of(rows: np.ndarray) -> np.ndarray:
        if next(began) > 3:
            fourth_began.set()
        if rows[0] == 0:
            first_may_fail.wait()
        return rows % 11

    iterator = tf.data.make_one_shot_iterator(dataset())
    features = iterator.get_next()
    users = tf.py_func(user_of, [features["row"]], tf.int64)
    users.set_shape(features["user"].shape)
    keys = tf.range(11, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys), 0)
    model = model_on(dict(features, user=table.lookup(users)), 0.1, iterator)
    config = async_config(threads=3, capacity=3)
    config.inter_op_parallelism_threads = 6
    with graph_opt.Session(config=config) as session, ThreadPoolExecutor() as main:
        session.run(tf.global_variables_initializer())
        step = main.submit(session.run, model.train_op)
        # The step gets the error of the second or third batch once the first one has failed, too.
        begins_another = fourth_began.wait(0.5)
        first_may_fail.set()
        with pytest.raises(tf.errors.FailedPreconditionError):
            step.result()
        session.run(tf.tables_initializer())
        rows = run_to_end(session, model.features["row"])
    assert not begins_another
    assert [list(row) for row in rows] == row_batches()[3:]


def test_an_error_of_the_input_reaches_the_step_with_type_and_message() -> None:
    def parse(row: np.int64) -> np.int64:
        if row == 20:
            raise ValueError("row 20 is not to be parsed")
        return row

    rows = tf.data.Dataset.range(64).map(lambda row: tf.py_func(parse, [row], tf.int64))
    iterator = tf.data.make_initializable_iterator(
        rows.map(lambda row: tf.ensure_shape(row, [])).batch(8)
    )
    row = iterator.get_next()
    label = tf.cast(row % 2, tf.float32)
    model = model_on(
        {"row": row, "user": row % 11, "item": row % 23, "label": label}, 0.0, iterator
    )
    with graph_opt.Session(config=async_config()) as session:
        initialize(session, model)
        with pytest.raises(tf.errors.InvalidArgumentError, match="row 20 is not to be parsed"):
            run_to_end(session, model.train_op)
