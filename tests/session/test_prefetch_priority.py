"""What `prefetch_priority` changes in sessions on servers: how fresh rows are, and nothing else."""

from __future__ import annotations

from typing import Any, Iterator, List, NamedTuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.session.parameter_servers import free_addresses, parameter_servers

pytestmark = pytest.mark.slow

STEPS = 40
TABLES, ROWS, CYCLE = 2, 9, 7


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker whose parameter server, in another process, has our ops."""
    server, worker = free_addresses(2)
    cluster = {"ps": [server], "worker": [worker]}
    with parameter_servers(cluster, has_ops=[True]):
        yield tf.train.Server(tf.train.ClusterSpec(cluster), job_name="worker").target


class Counting(NamedTuple):
    """Tables whose rows count their updates: each step takes 1 from row 0 and from one other."""

    number: Any
    rows: List[Any]
    train: Any
    tables: List[Any]


def counting(tables_on_server: bool, rate: float) -> Counting:
    worker = "/job:worker/task:0"
    setter = tf.train.replica_device_setter(1, worker_device=worker) if tables_on_server else worker
    with tf.device(setter):
        numbers = tf.data.Dataset.range(STEPS)
        number = tf.data.make_one_shot_iterator(numbers).get_next()
        ids = tf.stack([tf.zeros_like(number), number % CYCLE + 1])
        bag = tf.SparseTensor(tf.constant([[0, 0], [0, 1]], tf.int64), ids, [1, 2])
        tables = [
            tf.get_variable("table_{}".format(i), [ROWS, 4], initializer=tf.zeros_initializer())
            for i in range(TABLES)
        ]
        rows = [tf.nn.embedding_lookup_sparse(table, bag, None, combiner="sum") for table in tables]
        loss = tf.add_n([tf.reduce_sum(row) for row in rows])
        train = tf.train.GradientDescentOptimizer(rate).minimize(loss)
    return Counting(number, [row[0, 0] for row in rows], train, tables)


def updates_of(number: int, steps: int) -> int:
    """How often the rows of a batch were updated in the first steps, taken together."""
    return steps + sum(step % CYCLE == number % CYCLE for step in range(steps))


def config(priority: int, threads: int) -> Any:
    made = graph_opt.ConfigProto()
    options = made.graph_options.optimizer_options
    options.do_group_embedding = options.do_async_embedding = True
    asynchronous = options.async_embedding_options
    asynchronous.threads_num = asynchronous.capacity = threads
    asynchronous.infer_io_stage = True
    asynchronous.prefetch_priority = priority
    return made


@pytest.mark.parametrize("priority", [-1, 7, 20])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tables_on_server", [False, True])
def test_rows_miss_no_more_updates_than_the_options_say(
    tables_on_server: bool, threads: int, priority: int, target: str
) -> None:
    tf.Session.reset(target)
    model = counting(tables_on_server, rate=1.0)
    with graph_opt.Session(target, config=config(priority, threads)) as session:
        session.run(tf.global_variables_initializer())
        seen = [session.run([model.number, model.rows, model.train])[:2] for _ in range(STEPS)]
        tables = session.run(model.tables)
    report = graph_opt.report()
    assert report is not None and len(report.fused) == len(report.moved) == TABLES
    assert [number for number, _ in seen] == list(range(STEPS))
    lost = np.zeros(ROWS)
    lost[0] = STEPS
    lost[1 : CYCLE + 1] = np.bincount(np.arange(STEPS) % CYCLE)
    for table in tables:
        np.testing.assert_array_equal(table, -np.repeat(lost[:, np.newaxis], 4, axis=1))
    for number, rows in seen:
        oldest = max(number - 2 * threads, 0)
        allowed = {-updates_of(number, steps) for steps in range(oldest, number + 1)}
        assert allowed.issuperset(rows), number


@pytest.mark.parametrize("tables_on_server", [False, True])
def test_rows_of_frozen_tables_are_the_same_at_every_priority(
    tables_on_server: bool, target: str
) -> None:
    values = np.random.RandomState(3).rand(TABLES, ROWS, 4).astype(np.float32)
    found = []
    for priority in (-1, 0, 7, 20):
        tf.Session.reset(target)
        with tf.Graph().as_default():
            model = counting(tables_on_server, rate=0.0)
            with graph_opt.Session(target, config=config(priority, 2)) as session:
                session.run(tf.global_variables_initializer())
                for table, value in zip(model.tables, values):
                    table.load(value, session)
                steps = [session.run([model.rows, model.train])[0] for _ in range(STEPS)]
        found.append(np.array(steps))
    for rows in found[1:]:
        np.testing.assert_array_equal(rows, found[0])
