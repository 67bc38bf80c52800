"""Errors in single batches are raised once, in their place, as in a stock session."""

from __future__ import annotations

import re
from typing import Any, Callable, FrozenSet, Iterator, List, NamedTuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.ops.all_to_all import RankOfGroup, exchange_all_to_all
from tests.quick_cases import slow_but
from tests.session.bad_batches import (
    BATCHES,
    STEPS,
    Failure,
    kinds,
    model_of,
    outcome_of_step,
    train,
)
from tests.session.parameter_servers import cluster
from tests.session.small_model import async_config, run_to_end

NONE: FrozenSet[int] = frozenset()


@pytest.fixture(autouse=True)
def no_threads_left(threads_left_behind: Callable[[], List[str]]) -> Callable[[], List[str]]:
    return threads_left_behind


def both_flags(threads: int = 1, capacity: int = 2) -> Any:
    config = async_config(threads, capacity)
    config.graph_options.optimizer_options.do_group_embedding = True
    return config


def in_session(open_session: Callable[[], Any], where: str, bad: FrozenSet[int]) -> Any:
    """Runs the training loop in a separate graph, in the session that `open_session` opens."""
    with tf.Graph().as_default():
        model = model_of(where, bad)
        with open_session() as session:
            return train(session, model)


@pytest.mark.parametrize(
    "where", slow_but(["dataset", "graph", "py_func", "lookup"], "dataset", "lookup")
)
@pytest.mark.parametrize("threads", slow_but([1, 4], 4))
def test_every_error_comes_once_and_in_its_place(where: str, threads: int) -> None:
    bad = frozenset([0, 3, 4, BATCHES - 1])
    expected: Any = None
    for config in (None, async_config(threads), both_flags(threads)):
        opened = tf.Session if config is None else graph_opt.Session
        found = in_session(lambda: opened(config=config), where, bad)  # noqa: B023
        if config is None:
            expected = found
            assert kinds(found[0]).count("ok") == found[1] == BATCHES - len(bad)
            continue
        assert kinds(found[0]) == kinds(expected[0])
        assert found[1] == expected[1]
        for ours, stock in zip(found[0], expected[0]):
            if not isinstance(stock, Failure):
                assert np.isclose(ours, stock, rtol=1e-6)
                continue
            assert ours.operation == stock.operation
            if stock.kind == "OutOfRangeError":
                assert "no elements left" in ours.text
            elif where == "lookup" and config.graph_options.optimizer_options.do_group_embedding:
                assert "id -5 in row 1" in ours.text and "'users'" in ours.text
            else:
                assert ours == stock


class Failing(NamedTuple):
    """A model that fails in its only step.

    Attributes:
      target: Of the session, whose first parameter server has the tables; "" for one process.
      use_resource: Whether the tables are resource variables.
      bad: The table that the bad id is looked up in; "" for none.
      initialized: Matches the names of variables that are initialized.
      has_ranks: Whether the graph has a message to other ranks, which the step does not send.
    """

    target: str
    use_resource: bool
    bad: str
    initialized: str = ""
    has_ranks: bool = False

    def operation(self, open_session: Callable[..., Any], config: Any) -> str:
        """Name and kind of the node that fails, with the kind of error."""
        with tf.Graph().as_default():
            ids = {name: tf.placeholder(tf.int64, [None], name=name) for name in ("one", "other")}
            device = "/job:ps/task:0" if self.target else ""
            with tf.device(tf.train.replica_device_setter(1, device) if device else None):
                one, other = (
                    tf.get_variable("of_" + name, [5, 4], use_resource=self.use_resource)
                    for name in ids
                )
                positions = tf.constant([[0, 0], [1, 0]], tf.int64)
                bags = tf.SparseTensor(positions, ids["other"], [2, 1])
                results = [
                    tf.nn.embedding_lookup(one, ids["one"]),
                    tf.nn.safe_embedding_lookup_sparse(other, bags, combiner="sum"),
                ]
                loss = tf.add_n([tf.nn.l2_loss(result) for result in results])
                train_op = tf.train.AdagradOptimizer(0.1).minimize(loss)
            if self.has_ranks:
                exchange_all_to_all(
                    loss[tf.newaxis], [1], "loss_of_ranks", RankOfGroup(0, 1, "one")
                )
            feeds = {each: [1, 7 if name == self.bad else 2] for name, each in ids.items()}
            with open_session(self.target, config=config) as session:
                variables = [each for each in tf.global_variables() if self._has_value(each)]
                session.run(tf.variables_initializer(variables))
                step = outcome_of_step(lambda: session.run(train_op, feeds))
            return "{} {}".format(step.kind, step.operation)

    def _has_value(self, variable: Any) -> bool:
        return re.search(self.initialized, variable.op.name) is not None


def fused() -> Any:
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = True
    return config


@pytest.fixture(scope="module")
def of_worker() -> Iterator[str]:
    with cluster(servers=1) as (target,):
        yield target


@pytest.mark.parametrize("has_ranks", [False, True])
@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("bad", ["one", "other"])
def test_a_bad_id_is_an_error_of_its_lookup(bad: str, use_resource: bool, has_ranks: bool) -> None:
    failing = Failing("", use_resource, bad, has_ranks=has_ranks)
    stock = failing.operation(tf.Session, None)
    assert stock.startswith("InvalidArgumentError ")
    assert failing.operation(graph_opt.Session, fused()) == stock


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["one", "other"])
def test_a_bad_id_is_an_error_of_its_lookup_where_servers_look_rows_up(
    bad: str, of_worker: str
) -> None:
    failing = Failing(of_worker, True, bad)
    stock = failing.operation(tf.Session, None)
    assert failing.operation(graph_opt.Session, fused()) == stock


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_slot_without_a_value_is_an_error_of_its_update(use_resource: bool) -> None:
    failing = Failing("", use_resource, "", initialized="^of_(one|other$)")
    stock = failing.operation(tf.Session, None)
    ours = failing.operation(graph_opt.Session, fused())
    # TensorFlow's update of a resource variable says that its input is NULL, an InternalError.
    assert ours.startswith("FailedPreconditionError ") and "update_of_other" in ours
    assert ours.split()[1] == stock.split()[1]


def test_when_every_batch_is_bad_no_thread_runs_ahead_of_the_buffer() -> None:
    every = frozenset(range(BATCHES))
    expected = in_session(tf.Session, "graph", every)
    config = async_config(capacity=2)
    model = model_of("graph", every)
    with graph_opt.Session(config=config) as session:
        session.run([tf.global_variables_initializer(), model.iterator.initializer])
        first = outcome_of_step(lambda: session.run(model.loss))
        assert first == expected[0][0]
        metrics = graph_opt.metrics(session)
        assert metrics["async_embedding"]["errors"] <= 1 + 2
        rest = [outcome_of_step(lambda: session.run(model.loss)) for _ in range(STEPS - 1)]
        assert kinds([first] + rest) == kinds(expected[0])
        assert graph_opt.metrics(session)["async_embedding"]["errors"] == BATCHES


def test_the_initializer_starts_over_after_an_error() -> None:
    model = model_of("graph", frozenset([2]))
    with graph_opt.Session(config=async_config(threads=2)) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(model.iterator.initializer)
            steps = [outcome_of_step(lambda: session.run(model.loss)) for _ in range(4)]
            assert kinds(steps) == ["ok", "ok", "InvalidArgumentError", "ok"]


@pytest.mark.parametrize("threads", [1, 4])
def test_unordered_stages_report_each_error_once(threads: int) -> None:
    config = async_config(threads)
    config.graph_options.optimizer_options.async_embedding_options.unordered = True
    outcomes, step = in_session(
        lambda: graph_opt.Session(config=config), "graph", frozenset([1, 5, 6])
    )
    assert kinds(outcomes).count("InvalidArgumentError") == 3
    assert kinds(outcomes).count("ok") == step == BATCHES - 3


def monitored(open_session: Callable[..., Any], config: Any, bad: FrozenSet[int]) -> Any:
    with tf.Graph().as_default():
        model = model_of("graph", bad)
        scaffold = tf.train.Scaffold(
            local_init_op=tf.group(tf.local_variables_initializer(), model.iterator.initializer)
        )
        outcomes: List[Any] = []
        with open_session(scaffold=scaffold, config=config) as session:
            while not session.should_stop() and len(outcomes) < STEPS:
                step = outcome_of_step(lambda: session.run([model.loss, model.train_op])[0])
                outcomes.append(step)
        return outcomes


def test_a_monitored_session_continues_after_an_error() -> None:
    bad = frozenset([0, 3, 4])
    stock = monitored(tf.train.MonitoredTrainingSession, None, bad)
    ours = monitored(graph_opt.train.MonitoredTrainingSession, async_config(threads=2), bad)
    assert kinds(ours) == kinds(stock)
    assert [each for each in ours if isinstance(each, Failure)][:3] == [
        each for each in stock if isinstance(each, Failure)
    ][:3]


class FailsOnce:
    """Raises an AbortedError in one call, as if a server were lost."""

    def __init__(self, at: int) -> None:
        self._calls = 0
        self._at = at

    def __call__(self) -> int:
        self._calls += 1
        if self._calls == self._at:
            raise tf.errors.AbortedError(None, None, "the server is gone")
        return self._calls


def test_a_lost_server_makes_a_monitored_session_recover() -> None:
    number = tf.placeholder(tf.int64, [])
    taken = graph_opt.staged(number, feed_dict={number: FailsOnce(at=4)})
    step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    created: List[Any] = []

    class Count(tf.train.SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            created.append(session)

    with graph_opt.train.MonitoredTrainingSession(hooks=[Count()]) as session:
        taken_numbers = [int(session.run([taken, step])[0]) for _ in range(5)]
    assert len(created) == 2
    assert taken_numbers[:3] == [1, 2, 3] and taken_numbers[3] > 4


def test_an_error_of_a_feed_takes_the_place_of_its_batch() -> None:
    number = tf.placeholder(tf.int64, [])
    calls = iter(range(1, 100))

    def draw() -> Any:
        call = next(calls)
        if call == 3:
            raise KeyError("row 3")
        return call if call != 5 else "five"

    taken = graph_opt.staged(number + 0, feed_dict={number: draw}, num_threads=4, capacity=3)
    with graph_opt.Session() as session:
        steps = [outcome_of_step(lambda: int(session.run(taken))) for _ in range(7)]
    assert [each for each in steps if not isinstance(each, Failure)] == [1, 2, 4, 6, 7]
    assert steps[2].kind == "UnknownError" and "KeyError: 'row 3'" in steps[2].text
    assert steps[4].kind == "InvalidArgumentError" and "cannot be fed a str" in steps[4].text


def test_a_generator_that_raises_has_ended() -> None:
    def numbers() -> Any:
        yield from (1, 2)
        raise ValueError("torn")

    number = tf.placeholder(tf.int64, [])
    taken = graph_opt.staged(number, feed_dict={number: numbers()}, capacity=5)
    with graph_opt.Session() as session:
        steps = [outcome_of_step(lambda: int(session.run(taken))) for _ in range(4)]
    assert steps[:2] == [1, 2]
    assert kinds(steps[2:]) == ["UnknownError", "OutOfRangeError"]


def test_a_failed_queue_runner_ends_the_input_as_in_stock() -> None:
    def run(open_session: Callable[..., Any], config: Any) -> List[str]:
        with tf.Graph().as_default():
            lines = tf.constant(["0", "1", "2", "torn", "4"])
            line = tf.train.string_input_producer(lines, num_epochs=1, shuffle=False).dequeue()
            parsed = tf.string_to_number(line, tf.int64)
            queue = tf.FIFOQueue(10, tf.int64, [])
            runner = tf.train.QueueRunner(queue, [queue.enqueue(parsed)])
            tf.train.add_queue_runner(runner)
            table = tf.get_variable("table", [9, 2])
            row = queue.dequeue_many(1)
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, row))
            train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            coordinator = tf.train.Coordinator()
            with open_session(config=config) as session:
                session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
                threads = tf.train.start_queue_runners(session, coordinator)
                steps = [
                    outcome_of_step(lambda: session.run([row, train_op])[0][0]) for _ in "12345"
                ]
                with pytest.raises(tf.errors.InvalidArgumentError, match="torn"):
                    coordinator.join(threads)
            return [each.kind if isinstance(each, Failure) else str(each) for each in steps]

    assert run(graph_opt.Session, async_config()) == run(tf.Session, None)


@pytest.mark.slow
def test_the_sessions_step_timeout_does_not_apply_to_the_threads() -> None:
    model = model_of("dataset", NONE)
    config = async_config()
    config.operation_timeout_in_ms = 3000
    with graph_opt.Session(config=config) as session:
        session.run([tf.global_variables_initializer(), model.iterator.initializer])
        session.run(model.loss)
        hold = tf.FIFOQueue(1, tf.int64).dequeue()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(hold)  # meanwhile, a thread waits for room longer than the limit
        assert len(run_to_end(session, model.loss)) == BATCHES - 1


def test_closing_the_session_ends_it_as_in_stock() -> None:
    model = model_of("graph", frozenset([0]))
    session = graph_opt.Session(config=async_config())
    session.run([tf.global_variables_initializer(), model.iterator.initializer])
    assert kinds([outcome_of_step(lambda: session.run(model.loss))]) == ["InvalidArgumentError"]
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        session.run(model.loss)
