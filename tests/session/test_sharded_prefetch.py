"""Sessions prefetch the rows of a replicated script's sharded tables, on ranks that are threads."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport
from tests.quick_cases import slow_but
from tests.session import replicated_model as replicated

STEPS = 6
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
}


class Input:
    """Batches of a rank that are read one by one, when the test says so.

    Args:
      batches: Ids and labels of each.
    """

    def __init__(self, batches: List[Tuple[Any, Any]]) -> None:
        self._batches = batches
        self._given = 0
        self._changed = threading.Condition()

    def dataset(self) -> Any:
        """The batches."""
        shapes = (tf.TensorShape([None, 2]), tf.TensorShape([None]))
        return tf.data.Dataset.from_generator(self._read, (tf.int64, tf.float32), shapes)

    def give(self, count: int) -> None:
        """Lets some more be read."""
        with self._changed:
            self._given += count
            self._changed.notify_all()

    def _read(self) -> Iterator[Tuple[Any, Any]]:
        for number in range(len(self._batches) + 1):
            with self._changed:
                if number == len(self._batches):
                    return
                assert self._changed.wait_for(functools.partial(self._has_given, number), 30)
            yield self._batches[number]

    def _has_given(self, number: int) -> bool:
        return self._given > number


def wait_until_looked_up(session: Any, count: int) -> None:
    """Waits until so many batches have been put into the buffer."""
    end = time.monotonic() + 30
    while graph_opt.metrics(session)["async_embedding"]["put_count"] < min(count, STEPS):
        assert time.monotonic() < end


def config(fuse: bool, threads: int = 1) -> Any:
    """Divides, prefetches up to two batches, and fuses."""
    options = replicated.sharding()
    optimizer_options = options.graph_options.optimizer_options
    optimizer_options.do_async_embedding = True
    optimizer_options.do_group_embedding = fuse
    optimizer_options.async_embedding_options.threads_num = threads
    optimizer_options.async_embedding_options.capacity = 2
    optimizer_options.async_embedding_options.infer_io_stage = True
    return options


def batches_of(rank: int, count: int) -> List[Tuple[Any, Any]]:
    return [replicated.batch_of(step, rank) for step in range(count)]


def one_step_behind(optimizer: Any, use_resource: bool) -> Tuple[List[float], Dict[str, Any]]:
    """Losses and variables of one process whose lookups read what the step before last has left."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = replicated.build(optimizer, use_resource=use_resource)
        session.run(tf.global_variables_initializer())
        losses = [session.run(model.loss, replicated.feed(model, 0))]
        rows = session.run(model.rows, replicated.feed(model, 1))
        for step in range(1, STEPS):
            feed = {**replicated.feed(model, step), **dict(zip(model.rows, rows))}
            rows = session.run(model.rows, replicated.feed(model, step + 1))
            losses.append(session.run([model.loss, model.train], feed)[0])
        return losses, session.run({one.op.name: one for one in tf.global_variables()})


@pytest.mark.parametrize(
    "name, fuse, use_resource",
    slow_but([("adagrad", False, True), ("adam", True, False)], ("adam", True, False)),
)
def test_numbers_are_those_of_lookups_one_step_behind(
    name: str, fuse: bool, use_resource: bool
) -> None:
    def work(transport: InProcessTransport) -> Any:
        source = Input(batches_of(transport.rank, STEPS + 2 * transport.rank))
        iterator = tf.data.make_initializable_iterator(source.dataset())
        model = replicated.build(
            OPTIMIZERS[name](), transport, use_resource, batch=iterator.get_next()
        )
        losses = []
        with graph_opt.Session(config=config(fuse)) as session:
            session.run([tf.global_variables_initializer(), iterator.initializer])
            source.give(2)
            losses.append(session.run(model.loss))
            for step in range(1, STEPS):
                wait_until_looked_up(session, step + 1)
                source.give(1)
                wait_until_looked_up(session, step + 2)
                losses.append(session.run([model.loss, model.train])[0])
            source.give(STEPS)
            for _ in range(2):
                with pytest.raises(tf.errors.OutOfRangeError):
                    session.run(model.train)
            parts = replicated.parts(session)
        report = graph_opt.report(tf.get_default_graph())
        assert report is not None
        assert [lookup.stage for lookup in report.lookups] == ["async_embedding"] * 2
        assert len(report.sharded) == 2
        return losses, parts

    expected, whole = one_step_behind(OPTIMIZERS[name](), use_resource)
    results = replicated.on_ranks(work)
    losses = np.mean([losses for losses, _ in results], axis=0)
    np.testing.assert_allclose(losses, expected, rtol=2e-5)
    for key in results[0][1]:
        rows = {number: row for _, parts in results for number, row in parts[key].items()}
        found = np.stack([rows[number] for number in range(replicated.ROWS)])
        np.testing.assert_allclose(found, whole[key], rtol=2e-4, atol=2e-6, err_msg=key)


def test_a_bad_id_of_one_rank_is_an_error_on_all_and_sessions_end_at_once(caplog: Any) -> None:
    bad, last = 3, 6

    def work(transport: InProcessTransport) -> Any:
        batches = batches_of(transport.rank, 9)
        if transport.rank == 1:
            batches[bad][0][2, 1] = replicated.ROWS
        source = Input(batches)
        source.give(len(batches))
        iterator = tf.data.make_initializable_iterator(source.dataset())
        sgd = tf.train.GradientDescentOptimizer(0.0)
        model = replicated.build(sgd, transport, True, batch=iterator.get_next())
        losses: Dict[int, float] = {}
        with graph_opt.Session(config=config(fuse=False, threads=2)) as session:
            session.run([tf.global_variables_initializer(), iterator.initializer])
            for step in range(last):
                if step != bad:
                    losses[step] = session.run([model.loss, model.train])[0]
                    continue
                with pytest.raises(tf.errors.InvalidArgumentError, match="rank 1: ") as caught:
                    session.run(model.train)
                assert "table 'items'" in str(caught.value)
        return losses

    results = replicated.on_ranks(work)
    with tf.Graph().as_default(), tf.Session() as session:
        model = replicated.build(tf.train.GradientDescentOptimizer(0.0))
        session.run(tf.global_variables_initializer())
        for step in results[0]:
            expected = session.run(model.loss, replicated.feed(model, step))
            np.testing.assert_allclose(np.mean([one[step] for one in results]), expected, rtol=1e-5)
    names = [thread.name for thread in threading.enumerate()]
    assert not any(name.startswith("graph_opt/async_embedding") for name in names), names
    assert "still in a step" not in caplog.text
