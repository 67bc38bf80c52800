"""`DistributedEmbedding` trains as one process with whole tables and TensorFlow's own ops."""

from __future__ import annotations

import functools
import pickle
from pathlib import Path
from typing import Any, List, Sequence

import numpy as np
import pytest

import graph_opt
from graph_opt import distributed_embeddings as de
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import communicating_through
from tests.distributed_embeddings.layer_cases import BATCH, CASES, STEPS, adagrad, adam
from tests.distributed_embeddings.layer_ranks import (
    Case,
    Held,
    trained_by_stock,
    trained_on_rank,
    whole_tables,
)
from tests.horovod_processes import NEEDS_HOROVOD, check_all_done
from tests.quick_cases import slow_but
from tests.session.small_model import async_config
from tests.sharding.prefetched_ranks import RankModel, rank_dataset, steps_to_end


def check_training(
    case: Case, ranks: int, steps: int, optimizer: Any, open_session: Any = tf.Session
) -> None:
    held = run_ranks(
        ranks,
        lambda transport: trained_on_rank(case, transport, steps, BATCH, optimizer, open_session),
    )
    check_held(case, held, steps, optimizer)


def check_held(
    case: Case, held: Sequence[Sequence[List[List[Held]]]], steps: int, optimizer: Any
) -> None:
    """What ranks have before and after some steps is what one process has."""
    start, end = (whole_tables(case, one) for one in zip(*held))
    expected = trained_by_stock(case, start, steps, BATCH, optimizer)
    for before, ours, theirs in zip(start, end, expected):
        assert not np.array_equal(before, ours)
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "name",
    slow_but(CASES, "memory_optimized", "few_tables", "replicated"),
)
def test_training_is_that_of_one_process(name: str) -> None:
    check_training(CASES[name], ranks=2, steps=8, optimizer=adagrad)


def test_one_rank_trains_alike() -> None:
    check_training(CASES["all_groups"], ranks=1, steps=8, optimizer=adagrad)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_training_over_100_steps(name: str, ranks: int) -> None:
    check_training(CASES[name], ranks, STEPS, adagrad)


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_of_horovod_train_alike(ranks: int, tmp_path: Path) -> None:
    check_all_done(ranks, "tests.distributed_embeddings.horovod_ranks", str(tmp_path))
    for name, case in CASES.items():
        files = [tmp_path / "{}_{}".format(name, rank) for rank in range(ranks)]
        check_held(case, [pickle.loads(one.read_bytes()) for one in files], STEPS, adam)


@pytest.mark.parametrize("name", slow_but(["all_groups", "model_parallel_input"], "all_groups"))
def test_sessions_fuse_its_lookups_and_updates(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def open_session() -> Any:
        config = graph_opt.ConfigProto()
        config.graph_options.optimizer_options.do_group_embedding = True
        return graph_opt.Session(config=config)

    check_training(CASES[name], 2, 10, adam, open_session)
    said = capfd.readouterr().err
    assert said.count("updates of 4 tables fused (all deferred)") == 2, said


@pytest.mark.parametrize("ranks", slow_but([1, 2], 2))
def test_its_lookups_run_ahead_of_the_step(ranks: int, capfd: pytest.CaptureFixture[str]) -> None:
    plain = run_ranks(ranks, functools.partial(steps_of_rank, config=None))
    ahead = run_ranks(ranks, functools.partial(steps_of_rank, config=async_config(1, 2)))
    assert plain == ahead
    assert [len(steps) for steps in plain] == [4] * ranks
    assert capfd.readouterr().err.count("4 of 4 lookups run ahead of the step") == ranks


def steps_of_rank(transport: Transport, config: Any) -> Any:
    """Rows and losses of the steps of a model that trains at rate 0."""
    with communicating_through(transport), tf.Graph().as_default():
        iterator = tf.data.make_initializable_iterator(rank_dataset(transport.rank, 4))
        rows = iterator.get_next()
        sizes = [(23, 4, None), (17, 4, "sum"), (40, 8, None), (400, 8, None)]
        layer = de.DistributedEmbedding(
            [
                de.Embedding(size, width, combiner=combiner, name="table_{}".format(place))
                for place, (size, width, combiner) in enumerate(sizes)
            ],
            row_slice_threshold=3000,
            name="layer",
        )
        bags = tf.stack([rows * 5 % 17, rows % 17], axis=1)
        found = layer([rows * 7 % 23, bags, rows % 40, rows % 400])
        loss = tf.reduce_mean(tf.concat(found, 1) * tf.cast(rows[:, None] + 1, tf.float32))
        step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.0).minimize(loss, global_step=step)
        with graph_opt.Session(config=config) as session:
            session.run([tf.global_variables_initializer(), iterator.initializer])
            return steps_to_end(session, RankModel(iterator, rows, loss, train))
