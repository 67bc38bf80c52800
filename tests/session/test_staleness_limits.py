"""No row that main used has missed more updates than its table's limit allows.

Each update subtracts 1 from the rows of its batch, so that a row tells how many it has seen, and
the batches before tell how many there were.
"""

from __future__ import annotations

from typing import Any, Container, Iterator, List, NamedTuple, Tuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import graph_opt
from graph_opt.compat import tf
from tests.example_share import example_share
from tests.runtime.sources import wait_until
from tests.session.parameter_servers import free_addresses

ROWS, WIDTH, STEPS = 12, 4, 24
STAGE = "async_embedding"


class Case(NamedTuple):
    """A training.

    Attributes:
      limits: Of the tables; None: any number of updates.
      batch: Rows of a batch.
      threads, capacity: Of the stage.
      resource: The kind of variables.
      seed: Of the ids.
      sampled: Of so many steps one is; 0: none.
    """

    limits: List[Any]
    batch: int
    threads: int
    capacity: int
    resource: bool
    seed: int
    sampled: int = 0


CASES = st.builds(
    Case,
    limits=st.lists(st.sampled_from([None, 0, 1, 2, 3, 5]), min_size=1, max_size=3),
    batch=st.integers(1, ROWS),
    threads=st.integers(1, 4),
    capacity=st.integers(1, 6),
    resource=st.booleans(),
    seed=st.integers(0, 1000),
    sampled=st.sampled_from([0, 3]),
)


def config(case: Case) -> Any:
    found = graph_opt.ConfigProto()
    optimizer = found.graph_options.optimizer_options
    optimizer.do_group_embedding = True
    optimizer.do_async_embedding = True
    options = optimizer.async_embedding_options
    options.threads_num, options.capacity = case.threads, case.capacity
    options.infer_io_stage = True
    options.staleness_sample_steps = case.sampled
    for number, updates in enumerate(case.limits):
        if updates is not None:
            limit = options.staleness_limit.add()
            limit.table, limit.updates = "^table_{}$".format(number), updates
    return found


def missed(
    case: Case, target: str = "", full: bool = False, failing: Container[int] = (), loaded: int = -1
) -> Tuple[np.ndarray, Any]:
    """What rows have missed, and the report.

    Args:
      case: What is trained, and how.
      target: Of a worker with one server, where tables are then.
      full: Whether steps wait until the stage has run ahead as far as it may.
      failing: The steps that fail behind their update.
      loaded: The step after which the second table is set to zeros.

    Returns:
      [tables, STEPS]. The most updates that a row of a step has missed; and the report.
    """
    random = np.random.RandomState(case.seed)
    tables = len(case.limits)
    ids = np.stack(
        [[random.permutation(ROWS)[: case.batch] for _ in range(tables)] for _ in range(STEPS)]
    ).astype(np.int64)
    found = np.zeros([tables, STEPS])
    device = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    with tf.Graph().as_default(), tf.device(device if target else None):
        data = tf.data.Dataset.from_tensor_slices(ids)
        batch = tf.data.make_one_shot_iterator(data).get_next()
        variables = [
            tf.get_variable(
                "table_{}".format(number),
                [ROWS, WIDTH],
                initializer=tf.zeros_initializer(),
                use_resource=case.resource,
            )
            for number in range(tables)
        ]
        rows = [tf.nn.embedding_lookup(one, batch[n]) for n, one in enumerate(variables)]
        # The gradient is 1 whatever a row has, and yet is computed from it.
        loss = tf.add_n([tf.reduce_sum(each + 0.0 * tf.square(each)) for each in rows])
        train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        with tf.device(variables[0].device), tf.control_dependencies([train]):
            fails = tf.debugging.check_numerics(np.inf, "fails")
        updates = np.zeros([tables, ROWS])
        with graph_opt.Session(target, config=config(case)) as session:
            session.run(tf.global_variables_initializer())
            for step in range(STEPS):
                if full and 0 < step < STEPS - case.capacity:
                    wait_until(lambda: _ready(session) == case.capacity, "a full buffer")
                used = None
                if step in failing:
                    with pytest.raises(tf.errors.InvalidArgumentError):
                        session.run(fails)
                else:
                    used = session.run([rows, train])[0]
                for number in range(tables):
                    which = ids[step, number]
                    if used is not None:
                        found[number, step] = np.max(updates[number, which] + used[number][:, 0])
                    updates[number, which] += 1
                if step == loaded:
                    variables[1].load(np.zeros([ROWS, WIDTH]), session)
                    updates[1] = 0
            report = graph_opt.report(tf.get_default_graph())
    assert report is not None
    assert all(one.refusal is None for one in report.lookups), str(report)
    assert report.stages
    return found, report


def _ready(session: Any) -> int:
    return int(graph_opt.metrics(session)[STAGE]["size"])


def assert_within_limits(case: Case, found: np.ndarray) -> None:
    """No row has missed more than it may."""
    free = case.threads + case.capacity
    for updates, most in zip(case.limits, np.max(found, axis=1)):
        assert 0 <= most <= (free if updates is None else min(updates, free))


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with a parameter server, on real sockets, both in this process."""
    address, own = free_addresses(2)
    cluster = tf.train.ClusterSpec({"ps": [address], "worker": [own]})
    server = tf.train.Server(cluster, job_name="ps")
    worker = tf.train.Server(cluster, job_name="worker")
    yield worker.target
    del server, worker


ANY_CASE = given(case=CASES, is_served=st.booleans())


@example_share(0.05)
@ANY_CASE
def test_no_row_misses_more_than_its_table_may(target: str, case: Case, is_served: bool) -> None:
    assert_within_limits(case, missed(case, target if is_served else "")[0])


@pytest.mark.slow
@pytest.mark.fuzz("limits")
@ANY_CASE
def test_no_row_of_many_cases_misses_more(target: str, case: Case, is_served: bool) -> None:
    assert_within_limits(case, missed(case, target if is_served else "")[0])


@pytest.mark.slow
def test_rows_miss_as_many_as_they_may() -> None:
    case = Case([None, 2, 0], ROWS, threads=1, capacity=6, resource=True, seed=1)
    free, limited, exact = np.max(missed(case, full=True)[0], axis=1)
    assert free > 2 and limited == 2 and exact == 0


@pytest.mark.slow
@pytest.mark.parametrize("resource", [False, True])
def test_rows_of_a_limited_table_are_read_again_where_a_step_failed(
    target: str, resource: bool
) -> None:
    case = Case([None, 1], ROWS, threads=1, capacity=4, resource=resource, seed=1)
    found, report = missed(case, target, full=True, failing=(5, 9, 10), loaded=14)
    free, limited = np.max(found, axis=1)
    assert free > 1 and limited == 0
    assert "were read again from servers" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("resource", [False, True])
def test_free_tables_are_sampled_where_others_have_a_limit(target: str, resource: bool) -> None:
    case = Case([None, 1], ROWS, threads=1, capacity=4, resource=resource, seed=1, sampled=1)
    for where in ("", target):
        found, report = missed(case, where, full=True)
        (told,) = report.staleness
        assert (told.table, told.steps, told.rows) == ("table_0", STEPS, STEPS * ROWS)
        assert told.mean_missed > 1 and told.relative_l2 > 0
        assert np.max(found[1]) <= 1
