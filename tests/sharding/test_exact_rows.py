"""Exact rows of sharded tables: the numbers of a training without prefetch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sok.communication import communicating_through
from tests.example_share import example_share
from tests.horovod_processes import NEEDS_HOROVOD, check_all_done
from tests.session.small_model import report_on
from tests.session.test_exact_rows import config, sparse, weights_of
from tests.sharding.exact_ranks import (
    RankRun,
    assert_exact,
    assert_same_bits,
    every_kind,
    table,
    train,
)
from tests.sharding.prefetched_ranks import ids_of, rank_dataset, rank_model, steps_to_end
from tests.sharding.test_prefetch import failing_at

REPOSITORY = Path(__file__).resolve().parents[2]
OPTIMIZERS = ["sgd", "momentum", "adagrad", "ftrl", "adam"]


def trained(options: Any, ranks: int = 2, **settings: Any) -> List[RankRun]:
    """What each rank has computed."""
    lookups = settings.pop("lookups", every_kind)
    return run_ranks(ranks, lambda one: train(one, lookups, options, **settings), 60)


def assert_all_exact(exact: List[RankRun], fused: List[RankRun], lookups: int) -> None:
    """See `assert_exact`."""
    for one, other in zip(exact, fused):
        assert_exact(one, other, lookups)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_threads_and_capacities(optimizer: str) -> None:
    fused = trained(config(), optimizer=optimizer, steps=200)
    for threads, capacity in ((1, 1), (1, 4), (4, 1), (4, 4), (-1, -1)):
        exact = trained(config(threads, capacity), optimizer=optimizer, steps=200)
        assert_all_exact(exact, fused, 5)


@pytest.mark.slow
def test_without_exact_rows_are_old() -> None:
    fused = trained(config(), steps=30)
    assert trained(config(2, 3, exact=False), steps=30)[0].losses != fused[0].losses


class Lookup(NamedTuple):
    """One lookup of a random model: its table's number, and how its bags are pooled."""

    table: int
    combiner: str
    weighted: bool
    all_ids: bool


class Model(NamedTuple):
    """A random model of ranks.

    Attributes:
      ranks: How many there are.
      widths: Of its tables.
      owners: The ranks that have a whole table each; None: all have a part. Counted from the
        first again, where there are fewer ranks.
      lookups, optimizer, seed: As they say.
    """

    ranks: int
    widths: List[int]
    owners: List[Optional[int]]
    lookups: List[Lookup]
    optimizer: str
    seed: int


MODELS = st.builds(
    Model,
    ranks=st.integers(1, 3),
    widths=st.lists(st.sampled_from([1, 3, 4, 8]), min_size=1, max_size=3),
    owners=st.lists(st.sampled_from([None, 0, 1, 2]), min_size=3, max_size=3),
    lookups=st.lists(
        st.builds(
            Lookup,
            table=st.integers(0, 2),
            combiner=st.sampled_from(["sum", "mean", "sqrtn"]),
            weighted=st.booleans(),
            all_ids=st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    optimizer=st.sampled_from(OPTIMIZERS),
    seed=st.integers(0, 100),
)


def lookups_of(model: Model, inputs: Dict[str, Any]) -> List[Any]:
    owners = [None if one is None else one % model.ranks for one in model.owners]
    modes = [None if one is None else "localized:{}".format(one) for one in owners]
    tables = [table("t{}".format(i), width, modes[i]) for i, width in enumerate(model.widths)]
    bags, weights = sparse(inputs), weights_of(inputs)
    some = tf.equal(bags.values % 2, 0)

    def of(values: Any, choice: Lookup) -> Any:
        return values if choice.all_ids else tf.sparse.retain(values, some)

    return list(
        sok.lookup_sparse(
            [tables[one.table % len(tables)] for one in model.lookups],
            [of(bags, one) for one in model.lookups],
            [of(weights, one) if one.weighted else None for one in model.lookups],
            combiners=[one.combiner for one in model.lookups],
        )
    )


def check_model(model: Model, threads: int, capacity: int) -> None:
    def trained_with(options: Any) -> List[RankRun]:
        return trained(
            options,
            model.ranks,
            lookups=lambda inputs: lookups_of(model, inputs),
            optimizer=model.optimizer,
            steps=6,
            seed=model.seed,
        )

    exact, fused = trained_with(config(threads, capacity)), trained_with(config())
    for one, other in zip(exact, fused):
        assert_same_bits(one, other, len(model.lookups))


ANY_MODEL = given(MODELS, st.sampled_from([1, 3]), st.integers(1, 4))


@example_share(0.02)
@ANY_MODEL
def test_random_models(model: Model, threads: int, capacity: int) -> None:
    check_model(model, threads, capacity)


@pytest.mark.slow
@pytest.mark.fuzz("ranks")
@ANY_MODEL
def test_many_random_models(model: Model, threads: int, capacity: int) -> None:
    check_model(model, threads, capacity)


def _steps(options: Any, batches: List[int], parses: List[Any]) -> List[Any]:
    """The steps of two ranks, and their tables at the end."""

    def work(transport: InProcessTransport) -> Any:
        rank = transport.rank
        with communicating_through(transport), tf.Graph().as_default() as graph:
            dataset = rank_dataset(rank, batches[rank], parses[rank])
            model = rank_model(dataset, tf.train.AdagradOptimizer(0.5))
            tables = tf.trainable_variables()
            with graph_opt.Session(config=options) as session:
                session.run([tf.global_variables_initializer(), model.iterator.initializer])
                steps = steps_to_end(session, model)
                values = session.run(tables)
            stages = [one.stage for one in report_on(graph).lookups]
            return steps, [value.tolist() for value in values], stages

    return run_ranks(2, work, 60)


@pytest.mark.slow
@pytest.mark.parametrize("threads, capacity", [(1, 1), (3, 4)])
def test_ranks_end_together_and_share_errors(threads: int, capacity: int) -> None:
    torn = failing_at(3, lambda: ValueError("row 17 is torn"))
    for batches, parses in (
        ([30, 12], [None, None]),
        ([0, 4], [None, None]),
        ([9, 20], [None, torn]),
    ):
        fused = _steps(config(), batches, parses)
        exact = _steps(config(threads, capacity), batches, parses)
        for one, other in zip(exact, fused):
            assert [len(one[0]), one[1]] == [len(other[0]), other[1]]
            errors = [
                [step for step in each[0] if isinstance(step[1], str)] for each in (one, other)
            ]
            assert [code for code, _ in errors[0]] == [code for code, _ in errors[1]]
            assert all("row 17 is torn" in text for _, text in errors[0])
            assert [s for s in one[0] if s not in errors[0]] == [
                s for s in other[0] if s not in errors[1]
            ]
            assert one[2] == ["async_embedding"] * 2


@pytest.mark.slow
def test_what_is_written_between_steps_is_seen() -> None:
    def work(transport: InProcessTransport, options: Any) -> Any:
        with communicating_through(transport), tf.Graph().as_default():
            model = rank_model(
                rank_dataset(transport.rank, 40), tf.train.MomentumOptimizer(0.1, 0.9)
            )
            users = next(one for one in tf.trainable_variables() if "users" in one.op.name)
            losses = []
            with graph_opt.Session(config=options) as session:
                session.run([tf.global_variables_initializer(), model.iterator.initializer])
                for step in range(30):
                    losses.append(session.run([model.loss, model.train_op])[0])
                    if step == 10:  # this rank's part, built before or after the first step
                        users.load(np.full(users.shape, 0.25, np.float32), session)
                    if step == 15:
                        session.run(
                            sok.assign(users, [transport.rank], np.ones([1, users.shape[1]]))
                        )
                    if step in (20, 25):  # all ranks evaluate on a batch
                        losses.append(session.run(model.loss))
            return losses

    fused = run_ranks(2, lambda one: work(one, config()), 60)
    assert run_ranks(2, lambda one: work(one, config(2, 4)), 60) == fused


def _of_two_inputs(transport: InProcessTransport) -> List[Any]:
    with communicating_through(transport), tf.Graph().as_default() as graph:
        inputs = [
            tf.data.make_one_shot_iterator(rank_dataset(transport.rank, 5)).get_next()
            for _ in range(2)
        ]
        rows = sok.Variable(np.ones([23, 4], np.float32), name="rows")
        (pooled,) = sok.lookup_sparse([rows], [ids_of(inputs[0] % 23)], combiners=["sum"])
        loss = tf.reduce_mean(pooled * tf.cast(inputs[1][:, None], tf.float32))
        step = tf.train.AdagradOptimizer(0.1).minimize(loss)
        with graph_opt.Session(config=config(1)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(5):
                session.run(step)
        return [(one.refusal or {})["code"] for one in report_on(graph).lookups]


@pytest.mark.slow
def test_ranks_with_several_inputs_stay_synchronous() -> None:
    assert run_ranks(2, _of_two_inputs, 30) == [["exact_several_inputs"]] * 2


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_ranks_of_horovod(optimizer: str) -> None:
    check_all_done(2, "tests.sharding.exact_ranks", optimizer)


def _one_rank_takes_a_batch_alone(transport: InProcessTransport) -> str:
    with communicating_through(transport), tf.Graph().as_default():
        model = rank_model(rank_dataset(transport.rank, 40), tf.train.AdagradOptimizer(0.1))
        with graph_opt.Session(config=config(1, 2)) as session:
            session.run([tf.global_variables_initializer(), model.iterator.initializer])
            session.run(model.train_op)
            for _ in range(2 if transport.rank == 0 else 1):
                session.run(model.rows)
            with pytest.raises(tf.errors.OpError) as raised:
                session.run(model.train_op)
            return str(raised.value.message)


@pytest.mark.slow
def test_ranks_at_different_batches_are_told() -> None:
    messages = run_ranks(2, _one_rank_takes_a_batch_alone, 30)
    assert any("it is at another batch than this rank" in one for one in messages), messages


SCRIPT = """
import hashlib, sys
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

hvd.init()
random = np.random.RandomState(hvd.rank())
ids = random.zipf(1.2, [64 * 200, 5]) % 500
labels = random.randint(0, 2, [64 * 200, 1]).astype(np.float32)
dataset = tf.data.Dataset.from_tensor_slices((ids, labels)).batch(64)
ids, labels = dataset.make_one_shot_iterator().get_next()
users = tf.get_variable("users", [500, 16], use_resource="resource" in sys.argv)
items = tf.get_variable("items", [500, 8], use_resource="resource" in sys.argv)
rows = [tf.nn.embedding_lookup(users, ids[:, 0]),
        tf.reduce_sum(tf.nn.embedding_lookup(items, ids), 1)]
logits = tf.layers.dense(tf.concat(rows, 1), 1)
loss = tf.losses.sigmoid_cross_entropy(labels, logits)
optimizer = hvd.DistributedOptimizer(tf.train.AdagradOptimizer(0.1))
step = optimizer.minimize(loss, tf.train.get_or_create_global_step())
losses = []
with tf.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
    while not session.should_stop():
        losses.append(session.run([loss, step])[0])
print(len(losses), hashlib.sha1(np.array(losses).tobytes()).hexdigest())
"""
SEEDED = SCRIPT.replace("hvd.init()", "hvd.init(); tf.set_random_seed(7)")
IN_MAIN = "do_async_embedding=false"
FUSED = ("shard_tables=true", "min_table_bytes=1", "do_group_embedding=true")
AHEAD = ("do_async_embedding=true", "threads_num=2", "capacity=3", "infer_io_stage=true")


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("kind", ["reference", "resource"])
def test_unmodified_script_of_horovod(kind: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SEEDED)

    def printed(*options: str) -> List[str]:
        given = [text for one in options for text in ("--set", one)]
        done = subprocess.run(
            [sys.executable, "-m", "graph_opt.cli", "run", "-np", "2", *given, "train.py", kind],
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            timeout=300,
            env=dict(os.environ, PYTHONPATH=os.pathsep.join([str(REPOSITORY), *sys.path])),
        )
        assert done.returncode == 0, done.stderr
        ahead = "2 of 2 run ahead of the step" in done.stderr
        assert ahead == (IN_MAIN not in options), done.stderr
        return sorted(done.stdout.splitlines())

    fused = printed(*FUSED, IN_MAIN)
    assert all(" 200 " in line for line in fused)
    assert printed(*FUSED, *AHEAD, "exact=true") == fused
    assert printed(*FUSED, *AHEAD) != fused
