"""Counts of rows that are refreshed are those that follow from the batches.

A test lets batches be looked up between steps only, as many ahead as the buffer holds. So it knows
which updates each batch has missed.
"""

from __future__ import annotations

import collections
import itertools
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import numpy as np
import pytest

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sok.communication import communicating_through
from graph_opt.train import PrefetchSummaryHook
from tests.json_documents import validated
from tests.runtime.sources import wait_until
from tests.session.parameter_servers import free_addresses
from tests.session.test_exact_rows import config, sparse
from tests.session.test_served_bags import always as always

pytestmark = pytest.mark.slow

ROWS, WIDTH, BATCH, STEPS, CAPACITY = 24, 4, 6, 20, 3
STAGE = "async_embedding"
COUNTS = ("steps", "steps_in_main", "ids", "ids_changed", "bags", "bags_changed")
_trainings = itertools.count()

Lookups = Callable[[Dict[str, Any]], List[Any]]


class Trained(NamedTuple):
    """What a training tells: after its last step, when asked for counts, and after its session."""

    early: Any
    metrics: Any
    report: Any


def batches(seed: int = 0) -> Dict[str, np.ndarray]:
    """`bags` [STEPS, B, 4], each with an id at least and padding -1, and `one` [STEPS, B]."""
    random = np.random.RandomState(seed)
    bags = random.randint(0, ROWS, [STEPS, BATCH, 4])
    padding = random.rand(STEPS, BATCH, 4) < 0.6
    padding[:, :, 0] = False
    one = random.randint(0, ROWS, [STEPS, BATCH])
    return {"bags": np.where(padding, -1, bags).astype(np.int64), "one": one.astype(np.int64)}


def with_one_bag_that_changes(data: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """The same with bags of rows that no step before has soon, but for the first of each step."""
    first = 4 + 5 * (np.arange(STEPS) % (CAPACITY + 1))
    own = first[:, np.newaxis, np.newaxis] + data["bags"] % 5
    bags = np.where(data["bags"] < 0, -1, own)
    bags[:, 0, 0] = 1
    return {**data, "bags": bags}


def limited(**updates: int) -> Any:
    """A config with limits of tables."""
    options = config(1, CAPACITY, exact=False)
    wanted = options.graph_options.optimizer_options.async_embedding_options
    wanted.staleness_sample_steps = 4
    for table, most in updates.items():
        wanted.staleness_limit.add(table=table, updates=most)
    return options


def lookups_of(features: Dict[str, Any]) -> List[Any]:
    """One of bags, one of a table in parts, and one whose rows nobody refreshes."""
    zeros = tf.zeros_initializer()
    wide = tf.get_variable("wide", [ROWS, WIDTH], initializer=zeros)
    halves = tf.fixed_size_partitioner(2)
    parts = tf.get_variable("parts", [ROWS, WIDTH], initializer=zeros, partitioner=halves)
    free = tf.get_variable("free", [ROWS, WIDTH], initializer=zeros)
    return [
        tf.nn.embedding_lookup_sparse(wide, sparse(features), None, combiner="sum"),
        tf.nn.embedding_lookup(parts, features["one"]),
        tf.nn.embedding_lookup(free, features["one"]),
    ]


def train(
    data: Dict[str, np.ndarray], options: Any, target: str = "", lookups: Lookups = lookups_of
) -> Trained:
    """Trains on all batches; a stage reads one ahead only after the step before has ended."""
    worker = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    container = "counted{}".format(next(_trainings))
    with tf.Graph().as_default() as graph, tf.device(worker if target else None):
        with tf.container(container):
            shapes = [list(each.shape[1:]) for each in data.values()]
            queue = tf.FIFOQueue(STEPS, [tf.int64] * len(data), shapes, names=list(data))
            fed = {name: tf.placeholder(tf.int64) for name in data}
            enqueue = queue.enqueue(fed)
            rows = lookups(queue.dequeue())
            # The gradient is 1 whatever a row has, and yet is computed from it.
            loss = tf.add_n([tf.reduce_sum(each + 0.0 * tf.square(each)) for each in rows])
            update = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        with graph_opt.Session(target, config=options) as session:
            session.run(tf.global_variables_initializer())
            given = [{fed[name]: data[name][step] for name in data} for step in range(STEPS)]
            for step in range(STEPS):
                for batch in given[_enqueued(step - 1) : _enqueued(step)]:
                    session.run(enqueue, batch)
                if step:
                    _wait_for(session, _enqueued(step) - step)
                session.run(update)
            early = graph_opt.report(graph)
            metrics = graph_opt.refresh_metrics(session)
        return Trained(early, metrics, graph_opt.report(graph))


def _enqueued(step: int) -> int:
    """How many batches can be looked up before a step begins: the stage starts with the first."""
    return min(step + CAPACITY, STEPS) if step > 0 else step + 1


def _wait_for(session: Any, batches_ahead: int) -> None:
    def ready() -> bool:
        return bool(graph_opt.metrics(session)[STAGE]["size"] == batches_ahead)

    wait_until(ready, "a full buffer")


def counted(
    ids: np.ndarray, written: Optional[np.ndarray] = None, limit: int = 0
) -> Dict[str, int]:
    """What follows from the batches.

    Args:
      ids: [STEPS, B] or [STEPS, B, n], those below 0 are padding.
      written: Those that updates write; None: the same.
      limit: How many updates rows may miss.
    """
    bags = ids.reshape(STEPS, BATCH, -1)
    updates = [set(each.ravel()) for each in (ids if written is None else written)]
    changed = np.zeros(bags.shape, bool)
    for step in range(1, STEPS):
        missed = updates[max(1, step - CAPACITY + 1) : step]
        times = collections.Counter(row for update in missed for row in update)
        rows = [row for row, count in times.items() if row >= 0 and count > limit]
        changed[step] = np.isin(bags[step], rows)
    numbers = (
        STEPS, 0, np.sum(bags >= 0), np.sum(changed), STEPS * BATCH, np.sum(np.any(changed, 2))
    )  # fmt: skip
    return {name: int(number) for name, number in zip(COUNTS, numbers)}


def told(metrics: Any) -> Dict[str, Dict[str, int]]:
    """The counts of each table."""
    return {name: {key: of_table[key] for key in COUNTS} for name, of_table in metrics.items()}


def test_tables_in_the_process() -> None:
    data = with_one_bag_that_changes(batches())
    trained = train(data, limited(wide=0, parts=1))
    expected = {"parts": counted(data["one"], limit=1), "wide": counted(data["bags"])}
    assert all(0 < of_table["ids_changed"] < of_table["ids"] for of_table in expected.values())
    assert told(trained.metrics) == expected
    share = trained.metrics["wide"]["share_changed"]
    assert share == expected["wide"]["ids_changed"] / expected["wide"]["ids"]
    # The session has read its counts for the report when it was closed.
    refreshed = trained.report.refreshed
    assert told({one.table: one.to_dict() for one in refreshed}) == expected
    assert "rows refreshed  steps" in str(trained.metrics)
    assert str(trained.metrics).splitlines()[1] in str(trained.report)
    (first, _) = validated(trained.report.to_json())["refreshed"]
    assert first == dict(expected["parts"], table="parts")


@pytest.mark.parametrize("options", [config(1, CAPACITY), limited(wide=0)])
def test_a_table_that_is_left_to_main(options: Any) -> None:
    data = batches()
    data["bags"][:, :, 0] = 1  # every bag changes with every update
    metrics = told(train(data, options).metrics)
    # Steps 2 and 3 tell that too many bags change; step 3 begins with a full buffer.
    ahead = 3 + CAPACITY
    assert metrics["wide"]["steps"] == STEPS
    assert metrics["wide"]["steps_in_main"] == STEPS - ahead
    assert metrics["wide"]["bags"] == ahead * BATCH
    assert metrics["wide"]["ids"] == np.sum(data["bags"][:ahead] >= 0)
    assert metrics["wide"]["bags_changed"] == (ahead - 2) * BATCH


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with a parameter server, on real sockets, both in this process."""
    address, own = free_addresses(2)
    cluster = tf.train.ClusterSpec({"ps": [address], "worker": [own]})
    server = tf.train.Server(cluster, job_name="ps")
    worker = tf.train.Server(cluster, job_name="worker")
    yield worker.target
    del server, worker


def test_tables_on_servers(target: str) -> None:
    data = batches()
    trained = train(data, limited(wide=0, parts=2), target)
    # An update's answer has all rows of waiting batches that it wrote, whatever the limit.
    assert told(trained.metrics) == {"parts": counted(data["one"]), "wide": counted(data["bags"])}
    # Before each fourth training step a session reads the counts for the report.
    assert [one.steps for one in trained.early.refreshed] == [STEPS - 1] * 2
    # The worker goes on counting, but another graph does not tell it.
    again = train(data, limited(wide=0, parts=2), target)
    assert told(again.metrics)["wide"] == counted(data["bags"])


def test_bags_that_servers_pool(target: str, always: None) -> None:
    data = batches()
    metrics = told(train(data, config(1, CAPACITY), target).metrics)
    assert metrics["wide"] == {**dict.fromkeys(COUNTS, 0), "steps": STEPS, "steps_in_main": STEPS}
    assert metrics["parts"] == counted(data["one"])  # bags of one id are asked for as rows


def test_tables_of_ranks() -> None:
    data = [batches(seed) for seed in range(2)]

    def lookups(features: Dict[str, Any]) -> List[Any]:
        zeros = np.zeros([ROWS, WIDTH], np.float32)
        tables = [sok.Variable(zeros, name=name) for name in ("exact", "limited", "free")]
        found = sok.lookup_sparse(tables, [sparse(features)] * 3, combiners=["sum"] * 3)
        return list(found)

    def trained(transport: InProcessTransport) -> Dict[str, Dict[str, int]]:
        with communicating_through(transport):
            own = {"bags": data[transport.rank]["bags"]}
            return told(train(own, limited(exact=0, limited=1), lookups=lookups).metrics)

    written = np.concatenate([each["bags"] for each in data], axis=1)
    for rank, metrics in enumerate(run_ranks(2, trained, 120)):
        bags = data[rank]["bags"]
        expected = {"exact": counted(bags, written), "limited": counted(bags, written, 1)}
        assert metrics == expected


def test_tensorboard(tmp_path: Path) -> None:
    ids = tf.data.Dataset.from_tensor_slices(np.arange(ROWS).repeat(100) % 7).batch(BATCH)
    batch = tf.data.make_one_shot_iterator(ids).get_next()
    rows = tf.nn.embedding_lookup(tf.get_variable("users", [ROWS, WIDTH]), batch)
    step = tf.train.get_or_create_global_step()
    update = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows)), step)
    hook = PrefetchSummaryHook(str(tmp_path), every_n_steps=10)
    with graph_opt.train.MonitoredTrainingSession(
        config=config(1, CAPACITY), hooks=[hook], checkpoint_dir=str(tmp_path)
    ) as session:
        while not session.should_stop():
            session.run(update)
    values = collections.defaultdict(list)
    for path in tmp_path.glob("events*"):
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                values[value.tag].append(value.simple_value)
    report = graph_opt.report(tf.get_default_graph())
    assert report is not None
    (counts,) = report.refreshed
    in_main, changed = values["refresh/users/steps_in_main"], values["refresh/users/ids_changed"]
    assert len(in_main) == len(changed) == 40 and counts.steps == 400
    assert sum(in_main) * 10 == pytest.approx(counts.steps_in_main)
    assert all(0 <= value <= 1 for value in changed)
