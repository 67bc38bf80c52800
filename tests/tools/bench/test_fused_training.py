"""Training with fused lookups gives stock's losses and stock's checkpoints, step by step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graph_opt
from tests.tools.bench.small_workloads import BATCH, dlrm, wide
from tools.bench.cluster.loopback import Cluster
from tools.bench.training.sessions import FUSED, STOCK, SessionOptions, open_training_session
from tools.bench.workloads.dlrm import model as dlrm_model
from tools.bench.workloads.dlrm.workload import DataFiles, dlrm_workload
from tools.bench.workloads.movielens import TABLES, Ratings, movielens_workload
from tools.bench.workloads.workload import OPTIMIZERS, Learning, Workload, training_graph

TOLERANCE = 1e-5
# The last bit of a table's row decides now and then on which side of zero a ReLU is. Where that
# grows without limit, two stock runs that differ in one such bit part as far as any two runs do:
# with the workloads' eager Adagrad (sums of squares from 1e-5) to 1 % of the loss in 100 steps. So
# each optimizer is as TensorFlow makes it, and steps are short enough for the bit to stay one.
RATES = {"adagrad": 0.01, "adam": 1e-4, "ftrl": 0.01, "momentum": 1e-3, "sgd": 0.01}


class Run(NamedTuple):
    """Losses of all steps, and what graph_opt says of the graph."""

    losses: List[float]
    report: Any


@pytest.fixture(autouse=True)
def plain_adagrad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIMIZERS, "adagrad", tf.train.AdagradOptimizer)


def train(
    workload: Workload, optimizer: str, mode: str, steps: int, checkpoints: Optional[Path] = None
) -> Run:
    training = training_graph(workload, Learning(optimizer, RATES[optimizer]), Cluster())
    options = SessionOptions(
        mode=mode, checkpoint_directory=None if checkpoints is None else str(checkpoints)
    )
    with training.graph.as_default(), open_training_session(options, Cluster()) as session:
        step = (training.loss, training.train_op)
        losses = [float(session.run(step)[0]) for _ in range(steps)]
    return Run(losses, graph_opt.report(training.graph))


def check_losses(workload: Workload, optimizer: str, steps: int, tables: int) -> None:
    """Trains both ways; the fused one must have all of its lookups fused, and stock's losses."""
    stock = train(workload, optimizer, STOCK, steps)
    fused = train(workload, optimizer, FUSED, steps)
    check_fusion(fused.report, optimizer, tables)
    assert len(set(stock.losses)) > steps // 2
    np.testing.assert_allclose(fused.losses, stock.losses, rtol=TOLERANCE)


def check_fusion(report: Any, optimizer: str, tables: int) -> None:
    assert len(report.fused) == tables
    assert {lookup.gradient for lookup in report.fused} == {"fused"}
    codes = {refusal["code"] for lookup in report.fused for refusal in lookup.refusals}
    update = "deferred" if optimizer == "adam" else "fused"
    assert {lookup.update for lookup in report.fused} == {update} and not codes


@pytest.mark.parametrize("optimizer", [pytest.param("adagrad", marks=pytest.mark.slow), "adam"])
def test_wide_has_the_losses_of_stock(optimizer: str, tmp_path: Path) -> None:
    check_losses(wide(tmp_path, columns=6), optimizer, steps=5, tables=6)


@pytest.mark.slow  # the example with as many tables is among the quick ones
def test_dlrm_has_the_losses_of_stock(tmp_path: Path) -> None:
    check_losses(dlrm(tmp_path, 200, (16,), resource=True), "adagrad", steps=5, tables=26)


@pytest.mark.slow
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_a_hundred_steps_of_wide(optimizer: str, resource: bool, tmp_path: Path) -> None:
    check_losses(wide(tmp_path, 200, resource), optimizer, steps=100, tables=200)


@pytest.mark.slow
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_a_hundred_steps_of_dlrm(optimizer: str, resource: bool, tmp_path: Path) -> None:
    workload = dlrm(tmp_path, 20000, (512, 256, 64), resource)
    check_losses(workload, optimizer, steps=100, tables=26)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["momentum", "ftrl"])
def test_criteos_rows(optimizer: str, shared_data: Path) -> None:
    path = shared_data / "criteo_tiny.csv"
    if not path.exists():
        pytest.skip("no Criteo rows beside the checkout")
    options = dlrm_model.ModelOptions(buckets=1000, bottom=(32,), top=(32,))
    workload = dlrm_workload(DataFiles([str(path)], [str(path)], 0), options, BATCH)
    check_losses(workload, optimizer, steps=30, tables=26)


@pytest.mark.slow
def test_movielens_rows(shared_data: Path) -> None:
    folder = shared_data / "ml-100k"
    if not folder.is_dir():
        pytest.skip("no MovieLens rows beside the checkout")
    workload = movielens_workload(Ratings(folder))
    check_losses(workload, "adagrad", steps=100, tables=len(TABLES))


@pytest.mark.slow  # tests/session restores each kind of table
@pytest.mark.parametrize("optimizer, resource", [("adagrad", False), ("ftrl", True)])
def test_checkpoints_are_interchangeable(optimizer: str, resource: bool, tmp_path: Path) -> None:
    workload = wide(tmp_path, 3, resource)
    losses: Dict[Tuple[str, str], List[float]] = {}
    contents = []
    for modes in ((STOCK, STOCK), (FUSED, STOCK), (STOCK, FUSED)):
        folder = tmp_path / "_".join(modes)
        losses[modes] = [
            loss for mode in modes for loss in train(workload, optimizer, mode, 5, folder).losses
        ]
        contents.append(variables(folder / "model.ckpt-10"))
    stock, *mixed = contents
    assert slots(stock) == {"adagrad": {"Adagrad"}, "ftrl": {"Ftrl", "Ftrl_1"}}[optimizer]
    for other in mixed:
        assert list(other) == list(stock)
        for name, value in stock.items():
            np.testing.assert_allclose(other[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    for mixed_losses in losses.values():
        np.testing.assert_allclose(mixed_losses, losses[STOCK, STOCK], rtol=TOLERANCE)


def variables(checkpoint: Path) -> Dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(checkpoint))
    return {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}


def slots(content: Dict[str, np.ndarray]) -> set:
    """Ends of the names of what the checkpoint holds beside a table."""
    matches = (
        re.search(r"column_000_embedding/embedding_weights/(\w+)$", name) for name in content
    )
    return {match.group(1) for match in matches if match is not None}
