"""Sampled steps tell how many updates the rows that they use have missed, and what that changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.runtime.summary_hook import PrefetchSummaryHook
from tests.json_documents import validated
from tests.optimizer_models import STOCK
from tests.release_features import needs_estimators
from tests.runtime.sources import wait_until
from tests.session.parameter_servers import free_addresses

ROWS, WIDTH, BATCH, IDS = 20, 4, 4, 3
STEPS = 12
STAGE = "async_embedding"


class Model(NamedTuple):
    """A model of two tables that is fed from a queue, so that a test decides when batches are read.

    Attributes:
      enqueue: Puts a batch into the queue.
      ids, label: Placeholders of the batch.
      used: What the lookups of each table return.
      train: Trains on a batch.
    """

    enqueue: Any
    ids: Any
    label: Any
    used: List[Any]
    train: Any


def build(
    optimizer: str = "adagrad",
    resource: bool = True,
    parts: int = 1,
    bags: bool = True,
    servers: int = 0,
) -> Model:
    """The model, with `parts` parts of the first table."""
    on_worker = "/job:worker/task:0" if servers else None
    with tf.device(on_worker):
        queue = tf.FIFOQueue(STEPS, [tf.int64, tf.float32], [[BATCH, IDS], [BATCH]])
        ids = tf.placeholder(tf.int64, [BATCH, IDS])
        label = tf.placeholder(tf.float32, [BATCH])
        enqueue = queue.enqueue([ids, label])
    place = tf.train.replica_device_setter(servers, worker_device=on_worker) if servers else None
    with tf.device(place):
        with tf.device(on_worker):
            taken, wanted = queue.dequeue()
        tables = [
            tf.get_variable(
                name,
                [ROWS, WIDTH],
                initializer=tf.random_uniform_initializer(-1, 1, seed=number),
                use_resource=resource,
                partitioner=tf.fixed_size_partitioner(parts) if number == 0 and parts > 1 else None,
            )
            for number, name in enumerate(["users", "items"])
        ]
        used = [_rows(table, taken // (n + 1), bags) for n, table in enumerate(tables)]
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(tf.add_n(used), 1) - wanted))
        return Model(enqueue, ids, label, used, STOCK[optimizer]().minimize(loss))


def _rows(table: Any, ids: Any, bags: bool) -> Any:
    if not bags:
        return tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1)
    sparse = tf.SparseTensor(tf.where(ids >= 0), tf.reshape(ids, [-1]), [BATCH, IDS])
    return tf.nn.embedding_lookup_sparse(table, sparse, None, combiner="sum")


def config(every: int = 1, fused: bool = True, threads: int = 1, capacity: int = 3) -> Any:
    """A config with async embedding that samples one in `every` steps."""
    made = graph_opt.ConfigProto()
    optimizer = made.graph_options.optimizer_options
    optimizer.do_async_embedding, optimizer.do_group_embedding = True, fused
    options = optimizer.async_embedding_options
    options.threads_num, options.capacity = threads, capacity
    options.infer_io_stage, options.staleness_sample_steps = True, every
    return made


def batches(seed: int = 3) -> List[np.ndarray]:
    """The ids of all steps."""
    random = np.random.RandomState(seed)
    return [random.randint(0, ROWS, [BATCH, IDS]) for _ in range(STEPS)]


def ids_of(batch: np.ndarray) -> List[np.ndarray]:
    """The different rows of both tables that a batch looks up."""
    return [np.unique(batch // (number + 1)) for number in range(2)]


def run(session: Any, model: Model, data: List[np.ndarray], capacity: int = 3) -> List[List[int]]:
    """Trains with as many batches read ahead as there is room for, all read between two steps.

    Returns:
      For each table how many rows have missed 0, 1, 2, ... updates when a step used them.
    """
    missed = [[0] * (capacity + 2) for _ in range(2)]
    read_after: List[int] = []

    def put(count: int, steps: int) -> None:
        for batch in data[len(read_after) : len(read_after) + count]:
            fed = {model.ids: batch, model.label: np.ones(BATCH)}
            session.run(model.enqueue, fed)
            read_after.append(steps)

    put(1, 0)
    for step, batch in enumerate(data):
        if step:  # The stage's threads run from the first step on.
            put(min(step + capacity, len(data)) - len(read_after), step)
            held = len(read_after) - step
            wait_until(
                lambda: graph_opt.metrics(session)[STAGE]["size"] == held,  # noqa: B023
                "batches are read",
            )
        for number, rows in enumerate(ids_of(batch)):
            for row in rows:
                since = data[read_after[step] : step]
                missed[number][sum(row in ids_of(other)[number] for other in since)] += 1
        session.run(model.train)
    return missed


def told_by(session: Any) -> List[List[int]]:
    """The histograms of both tables, in full length."""
    metrics = graph_opt.staleness_metrics(session)
    return [metrics[name]["missed"] for name in ("users", "items")]


def trimmed(histograms: List[List[int]]) -> List[List[int]]:
    """Without what nothing fell into."""
    return [np.trim_zeros(histogram, "b") for histogram in histograms]


CASES: Dict[str, Dict[str, Any]] = {
    "fused": {},
    "unfused": {"fused": False},
    "fused, references, parts": {"resource": False, "parts": 2},
    "unfused, parts, gathers": {"fused": False, "parts": 3, "bags": False},
    "fused, Adam": {"optimizer": "adam"},
    "unfused, references, Momentum": {"optimizer": "momentum", "fused": False, "resource": False},
}


def check_local(fused: bool = True, **options: Any) -> None:
    model = build(**options)
    with graph_opt.Session(config=config(fused=fused)) as session:
        session.run(tf.global_variables_initializer())
        expected = run(session, model, batches())
        assert told_by(session) == trimmed(expected)
        for told in graph_opt.staleness_metrics(session).values():
            assert told["steps"] == STEPS
            assert 0 < told["relative_l2"] < 2


def test_a_fused_lookup_tells_what_it_missed() -> None:
    check_local()


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted(CASES))
def test_histogram_is_that_of_the_recorded_run(case: str) -> None:
    check_local(**CASES[case])


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with two parameter servers, on real sockets, all in this process."""
    *addresses, own = free_addresses(3)
    cluster = tf.train.ClusterSpec({"ps": addresses, "worker": [own]})
    servers = [tf.train.Server(cluster, job_name="ps", task_index=i) for i in range(2)]
    worker = tf.train.Server(cluster, job_name="worker", task_index=0)
    yield worker.target
    del servers, worker


@pytest.mark.slow
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("options", [{}, {"parts": 2}, {"bags": False}, {"optimizer": "adam"}])
def test_tables_on_servers(target: str, fused: bool, options: Dict[str, Any]) -> None:
    model = build(servers=2, **options)
    with graph_opt.Session(target, config=config(fused=fused)) as session:
        session.run(tf.global_variables_initializer())
        expected = run(session, model, batches())
        metrics = graph_opt.staleness_metrics(session)
        if "optimizer" in options and not fused:
            assert "update of every row" in metrics["users"]["uncounted"]
        else:
            assert told_by(session) == trimmed(expected)
        assert 0 < metrics["users"]["relative_l2"] < 2


@pytest.mark.slow
@pytest.mark.parametrize("threads, capacity", [(4, 1), (4, 4)])
def test_threads_never_let_a_row_miss_more_than_they_may(threads: int, capacity: int) -> None:
    model = build()
    random = np.random.RandomState(1)
    with graph_opt.Session(config=config(threads=threads, capacity=capacity)) as session:
        session.run(tf.global_variables_initializer())

        def enqueue(count: int) -> None:
            for _ in range(count):
                ids = random.randint(0, ROWS, [BATCH, IDS])
                session.run(model.enqueue, {model.ids: ids, model.label: np.ones(BATCH)})

        enqueue(STEPS)
        for _ in range(4 * STEPS):
            session.run(model.train)
            enqueue(1)
        for missed in told_by(session):
            assert len(missed) <= threads + capacity + 1
            assert sum(missed[1:]) > 0


@pytest.mark.slow
def test_monitored_sessions_and_tensorboard_tell_it(tmp_path: Path) -> None:
    data = tf.data.Dataset.from_tensor_slices(np.concatenate(batches())).repeat(4).batch(BATCH)
    ids = tf.data.make_one_shot_iterator(data).get_next()
    table = tf.get_variable("users", [ROWS, WIDTH])
    other = tf.get_variable("frozen", [ROWS, WIDTH], trainable=False)
    rows = tf.nn.embedding_lookup(table, ids) + tf.nn.embedding_lookup(other, ids)
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_sum(tf.square(rows - 1.0))
    train = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
    hook = PrefetchSummaryHook(str(tmp_path), every_n_steps=10)
    arguments = {"config": config(every=4), "hooks": [hook], "checkpoint_dir": str(tmp_path)}
    with graph_opt.train.MonitoredTrainingSession(**arguments) as session:
        while not session.should_stop():
            session.run(train)
    report = graph_opt.report(tf.get_default_graph())
    assert report is not None
    told = {one.table: one for one in report.staleness}
    assert told["users"].steps == 12
    assert told["users"].rows > 0 and told["users"].relative_l2 > 0
    assert told["frozen"].uncounted and told["frozen"].relative_l2 == 0
    assert "users" in str(report) and "relative L2" in str(report)
    assert validated(report.to_json())["staleness"][1]["missed"] == list(told["users"].missed)
    tags = {
        value.tag
        for path in tmp_path.glob("events*")
        for event in tf.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert {"staleness/users/missed_updates", "staleness/users/relative_l2"} <= tags
    assert "staleness/frozen/missed_updates" not in tags


@needs_estimators
@pytest.mark.slow
@pytest.mark.parametrize("every", [0, 5])
def test_estimators_train_and_evaluate(tmp_path: Path, every: int) -> None:
    graphs = []

    def inputs() -> Any:
        features = {"ids": np.concatenate(batches()).astype(np.int64)}
        return tf.data.Dataset.from_tensor_slices(features).batch(BATCH)

    def model(features: Any, mode: str) -> Any:
        graphs.append(tf.get_default_graph())
        table = tf.get_variable("users", [ROWS, WIDTH])
        loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, features["ids"]) - 1.0))
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    graph_opt.install(config(every=every))
    try:
        estimator = tf.estimator.Estimator(model, str(tmp_path))
        for _ in range(2):
            estimator.train(inputs)
            estimator.evaluate(inputs)
    finally:
        graph_opt.uninstall()
    reports = [graph_opt.report(graph) for graph in graphs]
    steps = [[one.steps for one in report.staleness] for report in reports if report]
    trained = [STEPS // every] if every else []
    assert steps == [trained, [], trained, []]


def trained(limits: List[Any], fused: bool = True, threads: int = 0, **options: Any) -> Any:
    """The table `users` after some steps, and the report; without threads, nothing runs ahead."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        data = tf.data.Dataset.from_tensor_slices(np.concatenate(batches())).repeat(3)
        ids = tf.data.make_one_shot_iterator(data.batch(BATCH)).get_next()
        tables = [tf.get_variable(name, [ROWS, WIDTH]) for name in ("users", "items")]
        used = [_rows(table, ids // (n + 1), True) for n, table in enumerate(tables)]
        loss = tf.add_n([tf.reduce_sum(tf.square(rows - 1.0)) for rows in used])
        train = STOCK["adagrad"]().minimize(loss)
        wanted = config(every=1, fused=fused, threads=threads or 1, **options)
        optimizer = wanted.graph_options.optimizer_options
        optimizer.do_async_embedding = threads > 0
        for table, updates in limits:
            limit = optimizer.async_embedding_options.staleness_limit.add()
            limit.table, limit.updates = table, updates
        with graph_opt.Session(config=wanted) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3 * STEPS):
                session.run(train)
            return session.run(tables[0]), graph_opt.report(tf.get_default_graph())


@pytest.mark.slow
@pytest.mark.parametrize("threads, capacity", [(1, 1), (4, 4)])
def test_a_table_whose_rows_may_miss_nothing_is_exact_and_others_run_free(
    threads: int, capacity: int
) -> None:
    expected, _ = trained([])
    limits = [("^users", 0), ("s", 100), ("nothing", 3)]
    table, report = trained(limits, threads=threads, capacity=capacity)
    np.testing.assert_array_equal(table, expected)
    assert "staleness_limit: 'nothing' matches no table" in str(report)
    assert [one.table for one in report.staleness] == ["items"]


@pytest.mark.slow
def test_where_a_limit_cannot_be_held_the_lookup_stays() -> None:
    _, report = trained([("users", 0)], fused=False, threads=2, capacity=2)
    stays = {one.tables[0]: one.refusal for one in report.lookups}
    assert stays["users"]["code"] == "exact_not_fused" and stays["items"] is None
    assert [one.table for one in report.staleness] == ["items"]


@pytest.mark.slow
def test_a_limit_that_nothing_exceeds_changes_nothing() -> None:
    _, report = trained([("users", 4)], threads=2, capacity=2)
    assert [one.table for one in report.staleness] == ["items", "users"]


@pytest.mark.slow
def test_tables_of_many_ids_take_turns() -> None:
    rows, steps = 12000, 8
    with tf.Graph().as_default():
        data = tf.data.Dataset.from_tensors(np.arange(rows, dtype=np.int64)).repeat(steps)
        ids = tf.data.make_one_shot_iterator(data).get_next()
        tables = [tf.get_variable(name, [rows, WIDTH]) for name in "abc"]
        loss = tf.add_n(
            [tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids))) for table in tables]
        )
        train = STOCK["sgd"]().minimize(loss)
        with graph_opt.Session(config=config()) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(steps):
                session.run(train)
            report = graph_opt.report(tf.get_default_graph())
    assert report is not None
    # Two tables have the 16,384 ids of a sample.
    assert [(one.table, one.steps) for one in report.staleness] == [("a", 6), ("b", 5), ("c", 5)]
    assert all(one.sampled_steps == steps for one in report.staleness)
    assert all(one.rows == one.steps * rows for one in report.staleness)
    title = "rows that ran ahead, in 8 sampled steps, each table in 5 to 6 of them"
    assert title in str(report)
