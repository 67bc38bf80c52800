"""The models that are measured train with exact rows as they do without prefetching, to the bit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graph_opt
from tests.tools.bench.small_workloads import dlrm, wide
from tools.bench.cluster.loopback import Cluster, start_cluster
from tools.bench.training.sessions import (
    EXACT,
    FUSED,
    Prefetching,
    SessionOptions,
    open_training_session,
)
from tools.bench.workloads.movielens import TABLES, Ratings, movielens_workload
from tools.bench.workloads.workload import OPTIMIZERS, Learning, Workload, training_graph

STEPS = 200
RATES = {"adagrad": 0.03, "adam": 1e-3, "ftrl": 0.05, "momentum": 0.01, "sgd": 0.1}
# Rows that Adam moves in every step are never exact ahead of time.
LAZY = 'graph_options { optimizer_options { group_embedding_options { adam: "lazy" } } }'
NUMBER_OF_TABLES = {"dlrm": 26, "wide": 20, "movielens": len(TABLES)}


class Run(NamedTuple):
    """Losses of all steps, variables at the end, and what graph_opt says of the graph.

    `written` is how many ids of the second half had a row that was written after it was read ahead.
    """

    losses: List[float]
    variables: Dict[str, np.ndarray]
    report: Any
    written: int


@pytest.fixture(scope="module")
def workloads(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Dict[str, Callable[[], Workload]]:
    """What makes each model."""
    folder = tmp_path_factory.mktemp("data")
    return {
        "dlrm": lambda: dlrm(folder, 2000, (64, 16)),
        "wide": lambda: wide(folder, 20),
        "movielens": lambda: _movielens(request.getfixturevalue("shared_data") / "ml-100k"),
    }


def _movielens(folder: Path) -> Workload:
    if not folder.is_dir():
        pytest.skip("no MovieLens rows beside the checkout")
    return movielens_workload(Ratings(folder))


@pytest.fixture
def config(tmp_path: Path) -> str:
    """The file of a config."""
    path = tmp_path / "config.pbtxt"
    path.write_text(LAZY, encoding="utf-8")
    return str(path)


_REFRESH = re.compile(r"Refresh(Packed)?$")


def train(
    workload: Workload, optimizer: str, mode: str, prefetching: Prefetching, cluster: Cluster
) -> Run:
    training = training_graph(workload, Learning(optimizer, RATES[optimizer]), cluster)
    options = SessionOptions(mode, prefetching)
    with training.graph.as_default(), open_training_session(options, cluster) as session:
        variables = {each.op.name: each for each in tf.global_variables()}
        step = (training.loss, training.train_op)
        losses = [float(session.run(step)[0]) for _ in range(STEPS // 2)]
        refreshes = [op for op in training.graph.get_operations() if _REFRESH.search(op.type)]
        counts = [op.outputs[-1] for op in refreshes]  # of all ids, and of those written
        written = 0
        for _ in range(STEPS - STEPS // 2):
            loss, _, counted = session.run([*step, counts])
            losses.append(float(loss))
            written += sum(int(changed) for _, changed in counted)
        values = session.run(variables)
    return Run(losses, values, graph_opt.report(training.graph), written)


def assert_moved(exact: Run, model: str) -> None:
    """All lookups ran ahead, and would have had old rows if they had not been exact.

    Where most would have been old, only their ids ran ahead.
    """
    assert sum(each.count for each in exact.report.moved) == NUMBER_OF_TABLES[model]
    left_to_steps = sum(each.steps_in_main for each in exact.report.refreshed)
    assert exact.written > 0 or left_to_steps > 0


def assert_same(one: Run, other: Run) -> None:
    assert one.losses == other.losses
    assert one.variables.keys() == other.variables.keys()
    for name, value in other.variables.items():
        np.testing.assert_array_equal(one.variables[name], value, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
@pytest.mark.parametrize("model", sorted(NUMBER_OF_TABLES))
def test_in_the_process(model: str, optimizer: str, workloads: Any, config: str) -> None:
    workload = workloads[model]()
    fused = train(workload, optimizer, FUSED, Prefetching(config=config), Cluster())
    assert len(set(fused.losses)) > STEPS // 2
    for threads in (1, 4):
        for capacity in (1, 4):
            ahead = Prefetching(threads, capacity, config=config)
            exact = train(workload, optimizer, EXACT, ahead, Cluster())
            assert_moved(exact, model)
            assert_same(exact, fused)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adagrad", "ftrl"])
@pytest.mark.parametrize("model, servers", [("wide", 1), ("dlrm", 2), ("movielens", 2)])
def test_on_servers(model: str, servers: int, optimizer: str, workloads: Any, config: str) -> None:
    workload = workloads[model]()
    runs = []
    for mode, threads, capacity in ((FUSED, 1, 1), (EXACT, 1, 4), (EXACT, 4, 1)):
        ahead = Prefetching(threads, capacity, config=config)
        with start_cluster(servers) as cluster:
            runs.append(train(workload, optimizer, mode, ahead, cluster))
    for exact in runs[1:]:
        assert_moved(exact, model)
        assert_same(exact, runs[0])
