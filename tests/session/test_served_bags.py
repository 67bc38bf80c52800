"""Exact rows of tables whose servers pool bags: main asks for what it cannot know ahead."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.sessions import session_config
from graph_opt.passes.prefetch.exact import served_rows
from tests.optimizer_models import STOCK
from tests.session import test_served_rows as served
from tests.session.parameter_servers import cluster
from tests.session.test_exact_rows import Run, assert_same, config, every_kind, moved, train
from tests.session.test_served_rows import SIZES

pytestmark = pytest.mark.slow

BATCH = 16
ROWS = 400
MANY = 12  # ids in a bag: with so many, bags are less to send than rows
_trainings = itertools.count()
Between = Dict[int, Callable[[Any], Any]]
Ids = Callable[[np.random.RandomState, int], np.ndarray]


@pytest.fixture(scope="module", params=[1, 2])
def placed(request: Any) -> Iterator[Dict[str, Any]]:
    """A worker's target, and how many servers it has."""
    with cluster(request.param) as (worker,):
        yield {"target": worker, "servers": request.param}


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """The target of a worker with one server."""
    with cluster(1) as (worker,):
        yield worker


@pytest.fixture
def always(monkeypatch: Any) -> None:
    """Has servers pool whatever they can."""
    monkeypatch.setattr(served_rows, "_TOGETHER", "always")


class Pooled(NamedTuple):
    """A training.

    Attributes:
      run: Its results; losses are -1 where a step failed.
      asks: Of each step that ended well, whether main asked servers for rows.
      asks_behind: And whether it asked for those of the next step, behind its update.
    """

    run: Run
    asks: List[bool]
    asks_behind: List[bool]

    @property
    def not_ahead(self) -> int:
        """Steps that asked for bags, their own or the next step's."""
        return sum(map(max, self.asks, self.asks_behind))

    @property
    def asked_before(self) -> int:
        """Steps that used what the step before had asked for."""
        before = zip(self.asks_behind, self.asks[1:])
        return sum(behind and not asks for behind, asks in before)


def many(random: np.random.RandomState, rows: int) -> np.ndarray:
    """Bags of different rows, some of them empty."""
    ids = random.randint(0, ROWS, [rows, MANY])
    ids[random.rand(rows, MANY) < 0.2] = -1
    ids[random.rand(rows) < 0.1] = -1
    return ids


def few(random: np.random.RandomState, rows: int) -> np.ndarray:
    """Bags of one id."""
    ids = np.full([rows, MANY], -1)
    ids[:, 0] = random.randint(0, 8, rows)
    return ids


def lookups_of(features: Dict[str, Any]) -> List[Any]:
    """Two lookups of one table, with weights and default rows, and one in parts."""
    wide = tf.get_variable("wide", [ROWS, 8], initializer=_initial(1))
    own = tf.get_variable("own", [ROWS, 4], initializer=_initial(2))
    parts = tf.get_variable(
        "parts", [ROWS, 3], initializer=_initial(3), partitioner=tf.fixed_size_partitioner(3)
    )
    places = tf.where(features["ids"] >= 0)
    shape = tf.shape(features["ids"], out_type=tf.int64)
    bags = tf.SparseTensor(places, tf.gather_nd(features["ids"], places), shape)
    weights = tf.SparseTensor(places, tf.gather_nd(features["weights"], places), shape)
    safe = tf.nn.safe_embedding_lookup_sparse
    return [
        safe(wide, bags, combiner="mean"),
        safe(wide, bags, weights, combiner="sqrtn", default_id=2),
        safe(own, bags, combiner="sum"),
        safe(own, bags, weights, combiner="mean", default_id=0),
        safe(parts, bags, combiner="sum"),
        tf.nn.embedding_lookup(own, features["one"]),
    ]


def _initial(seed: int) -> Any:
    return tf.random_uniform_initializer(-0.1, 0.1, seed=seed)


def _features(ids: Ids, steps: int) -> Dict[str, Any]:
    random = np.random.RandomState(0)
    rows = BATCH * steps - 3  # the last batch is smaller
    data = {
        "ids": ids(random, rows).astype(np.int64),
        "weights": random.uniform(0.1, 1, [rows, MANY]).astype(np.float32),
        "one": random.randint(0, ROWS, rows).astype(np.int64),
        "label": random.rand(rows, 1).astype(np.float32),
    }
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(BATCH)
    return dict(tf.data.make_one_shot_iterator(dataset).get_next())


def pooled(
    options: Any,
    target: str,
    servers: int,
    ids: Ids = many,
    steps: int = 20,
    optimizer: str = "adagrad",
    fails_each: int = 0,
    between: Optional[Callable[[Any], Between]] = None,
    lookups: Callable[[Dict[str, Any]], List[Any]] = lookups_of,
) -> Pooled:
    """Trains to the end of the input.

    Args:
      options: The session's config.
      target: Its worker.
      servers: How many servers have the tables.
      ids: Makes the ids of so many rows of the input.
      steps: How many batches there are.
      optimizer: A key of STOCK.
      fails_each: One in so many steps fails behind its update; 0: none does.
      between: Makes what happens after some steps, given the loss.
      lookups: The model's.
    """
    setter = tf.train.replica_device_setter(servers, worker_device="/job:worker/task:0")
    container = "pooled{}".format(next(_trainings))
    with tf.Graph().as_default() as graph, tf.device(setter), tf.container(container):
        tf.set_random_seed(1)
        features = _features(ids, steps)
        logits = tf.layers.dense(
            tf.concat(lookups(features), 1), 1, kernel_initializer=tf.ones_initializer()
        )
        loss = tf.losses.mean_squared_error(features["label"], logits)
        step = tf.train.get_or_create_global_step()
        fetched = [loss, STOCK[optimizer]().minimize(loss, step)]
        if fails_each:
            # The server fails steps as it tells the worker what they wrote, which may not arrive.
            with tf.device("/job:ps/task:0"), tf.control_dependencies([fetched[1]]):
                cycle = tf.cast(tf.floormod(step.read_value(), fails_each), tf.float32)
                fetched.append(tf.debugging.check_numerics(loss / cycle, "such losses"))
        variables = {each.op.name: each for each in tf.global_variables()}
        acts = {} if between is None else between(loss)
        losses: List[float] = []
        asks: List[bool] = []
        asks_behind: List[bool] = []
        with graph_opt.Session(target, config=options) as session:
            session.run(tf.global_variables_initializer())
            operations = graph.get_operations()
            told = [each.outputs[-2] for each in operations if each.type == "TakeServedRows"]
            sent = [each.outputs[0] for each in operations if each.type == "NextServedBatch"]
            for turn in itertools.count():
                try:
                    found, of_lookups, requests = session.run([fetched, told, sent])
                    losses.append(found[0])
                    asks.append(any(of_lookups))
                    asks_behind.append(any(request.any() for request in requests))
                except tf.errors.InvalidArgumentError:
                    losses.append(-1)
                except tf.errors.OutOfRangeError:
                    break
                acts.get(turn, lambda session: None)(session)
            run = Run(losses, session.run(variables), graph_opt.report())
            return Pooled(run, asks, asks_behind)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adagrad", "ftrl", "adam"])
def test_trainings_whose_servers_pool_bags(placed: Dict[str, Any], optimizer: str) -> None:
    fused = pooled(config(), optimizer=optimizer, steps=100, **placed)
    for threads, capacity in SIZES:
        exact = pooled(config(threads, capacity), optimizer=optimizer, steps=100, **placed)
        assert moved(exact.run) == 6
        assert_same(exact.run, fused.run)
        assert not exact.asks[0]  # rows are counted before anything is pooled
        assert exact.not_ahead > 90
        assert exact.asked_before > 0
    assert "servers, which pool bags where that is clearly less to send" in str(exact.run.report)


@pytest.mark.parametrize("resource", [False, True])
def test_bags_of_every_kind(placed: Dict[str, Any], resource: bool, always: None) -> None:
    lookups = every_kind(resource)
    fused = train(lookups, config(), steps=60, **placed)
    for threads, capacity in SIZES:
        exact = train(lookups, config(threads, capacity), steps=60, **placed)
        assert moved(exact) == 5
        assert_same(exact, fused)


def test_from_rows_to_bags_and_back(placed: Dict[str, Any]) -> None:
    def ids(random: np.random.RandomState, rows: int) -> np.ndarray:
        third = rows // 3
        parts = [few(random, third), many(random, third), few(random, rows - 2 * third)]
        return np.concatenate(parts)

    fused = pooled(config(), ids=ids, steps=210, **placed)
    for threads, capacity in [(1, 1), (4, 4)]:
        exact = pooled(config(threads, capacity), ids=ids, steps=210, **placed)
        assert_same(exact.run, fused.run)
        assert not any(exact.asks[:60]) and not any(exact.asks[-10:])
        assert exact.not_ahead > 40


def test_rows_and_bags_of_one_table(placed: Dict[str, Any]) -> None:
    """One lookup's rows are asked for ahead while the other's update goes by bags."""

    def lookups(features: Dict[str, Any]) -> List[Any]:
        rows = tf.get_variable("rows", [ROWS, 8], initializer=_initial(1))
        found = lookups_of(features)
        few_ids = tf.SparseTensor(
            tf.where(features["ids"][:, :1] >= 0),
            tf.boolean_mask(features["ids"][:, 0], features["ids"][:, 0] >= 0),
            tf.shape(features["ids"][:, :1], out_type=tf.int64),
        )
        bags = tf.sparse.from_dense(features["ids"] + 1)
        bags = tf.SparseTensor(bags.indices, bags.values - 1, bags.dense_shape)
        group = graph_opt.group_embedding_lookup_sparse
        found += group([rows], [few_ids], ["mean"])
        found += group([rows], [bags], ["mean"])
        return found

    fused = pooled(config(), lookups=lookups, steps=60, **placed)
    for threads, capacity in SIZES:
        exact = pooled(config(threads, capacity), lookups=lookups, steps=60, **placed)
        assert exact.not_ahead > 40
        assert_same(exact.run, fused.run)


@pytest.mark.parametrize("mode", ["chosen", "always"])
def test_failing_steps_and_writers_in_between(
    target: str,
    tmp_path: Path,
    monkeypatch: Any,
    mode: str,
) -> None:
    if mode == "always":
        monkeypatch.setattr(served_rows, "_TOGETHER", "always")

    def run_on(name: str, options: Any) -> Pooled:
        (tmp_path / name).mkdir()
        path = str(tmp_path / name / "model")

        def between(loss: Any) -> Between:
            saver, wide = tf.train.Saver(), tf.trainable_variables()[0]
            ones = np.ones(wide.shape.as_list(), np.float32)
            norm = tf.norm(wide)
            return {
                3: lambda session: saver.save(session, path),
                6: lambda session: session.run(loss),  # takes a batch
                8: lambda session: saver.restore(session, path),
                10: lambda session: session.run(norm),
                13: lambda session: wide.load(ones, session),
                17: lambda session: session.run(tf.assign(wide, 2 * ones)),
            }

        return pooled(options, target, 1, steps=30, fails_each=5, between=between)

    fused = run_on("fused", config())
    assert fused.run.losses.count(-1) > 3
    for threads, capacity in SIZES:
        exact = run_on("exact{}{}".format(threads, capacity), config(threads, capacity))
        assert any(exact.asks)
        assert_same(exact.run, fused.run)


def test_evaluation_takes_batches_in_between(placed: Dict[str, Any], always: None) -> None:
    served.test_evaluation_takes_batches_in_between(placed)


def test_updates_that_a_step_may_skip(placed: Dict[str, Any], always: None) -> None:
    served.test_updates_that_a_step_may_skip(placed)


def test_workers_miss_no_update_of_their_own(always: None) -> None:
    served.test_workers_miss_no_update_of_their_own()


@pytest.mark.parametrize("staleness", [0, 1])
def test_updates_stay_in_main_if_dense_ones_do_not(
    target: str,
    staleness: int,
    always: None,
) -> None:
    served.test_updates_stay_in_main_if_dense_ones_do_not(target, staleness)


def test_a_lost_server_makes_a_monitored_session_recover(always: None) -> None:
    served.test_a_lost_server_makes_a_monitored_session_recover()


def test_steps_that_tell_nobody_of_their_updates(target: str, always: None) -> None:
    """Rows would be lost by such a step; bags are asked for after it."""
    with tf.Graph().as_default() as graph:
        loss, step, rows = served._model()
        with graph_opt.Session(target, config=config(2, 3)) as session:
            session.run(tf.global_variables_initializer())
            session.run([loss, step])
            named = tf.ConfigProto()  # it takes from this session's buffers
            named.experimental.session_metadata.CopyFrom(
                session_config(session).experimental.session_metadata
            )
            with tf.Session(target, graph=graph, config=named) as foreign:
                for turn in range(12):
                    before = session.run(rows)
                    value, _ = (session if turn % 3 else foreign).run([loss, step])
                    np.testing.assert_allclose(value, before.sum(), 1e-6)
